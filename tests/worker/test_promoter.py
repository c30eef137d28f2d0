"""Jobs become ready the moment they are due: turn by turn, without the promoter's thread."""

from __future__ import annotations

import pytest

from scheduler.errors import BackendClosed, BackendUnavailable
from scheduler.leases import Promotion
from scheduler.states import JobState
from scheduler.worker.promoter import Promoter
from worker.stand import Rooms, Stand


def a_promoter(stand: Stand, **changes: object) -> tuple[Promoter, Rooms]:
    rooms = Rooms(stand, **{"poll_interval": 1.0, **changes})
    return Promoter(rooms.run), rooms


def answer(stand: Stand, monkeypatch: pytest.MonkeyPatch, *answers: Promotion) -> None:
    """Let the store answer this, one after the other."""
    left = list(answers)
    monkeypatch.setattr(type(stand.backend), "promote_due", lambda self, queues, limit: left.pop(0))


def test_what_is_due_becomes_ready_and_rings_the_pump(stand: Stand) -> None:
    promoter, rooms = a_promoter(stand)
    job = stand.add(delay=0.5)
    promoter.promote()  # before it is due: a store that derives ready moves nothing, so that its time is waited for
    stand.until(lambda: promoter.promote() > 0.0 and stand.state(job.id) is JobState.READY)
    assert rooms.run.doorbell.wait(0.0)


def test_it_sleeps_until_the_next_due_time_and_no_longer_than_a_poll(stand: Stand) -> None:
    promoter, _ = a_promoter(stand)
    assert 0.8 <= promoter.promote() <= 1.2
    stand.add(delay=3_600.0)
    assert 0.8 <= promoter.promote() <= 1.2
    stand.add(delay=0.5)
    assert 0.0 < promoter.promote() <= 0.501  # a store may round to a millisecond, upwards


def test_fallback_polls_are_jittered(stand: Stand) -> None:
    promoter, _ = a_promoter(stand)
    assert len({promoter.promote() for _ in range(20)}) == 20


def test_a_due_time_that_was_waited_for_rings_whatever_was_moved(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that derives ready moves nothing, and another worker may have promoted."""
    promoter, rooms = a_promoter(stand)
    answer(stand, monkeypatch, Promotion(moved=0, next_due=0.3), Promotion(moved=0, next_due=None))
    assert promoter.promote() == 0.3
    assert not rooms.run.doorbell.wait(0.0)
    promoter.promote()
    assert rooms.run.doorbell.wait(0.0)


def test_nothing_moved_and_nothing_awaited_rings_nobody(stand: Stand) -> None:
    promoter, rooms = a_promoter(stand)
    for _ in range(3):
        promoter.promote()
    assert not rooms.run.doorbell.wait(0.0)


def test_more_due_than_one_call_moves_is_followed_at_once(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    promoter, _ = a_promoter(stand)
    answer(stand, monkeypatch, Promotion(moved=1_000, next_due=0.0))
    assert promoter.promote() == 0.0
    assert stand.watch.counts["promoted"] == 1_000


def test_a_due_time_that_comes_and_moves_nothing_does_not_make_it_spin(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    promoter, _ = a_promoter(stand)
    answer(stand, monkeypatch, Promotion(moved=0, next_due=0.0))
    assert promoter.promote() > 0.0


@pytest.mark.parametrize("error", [BackendUnavailable, BackendClosed, ZeroDivisionError])
def test_errors_are_the_tickers_business(stand: Stand, error: type[Exception]) -> None:
    promoter, rooms = a_promoter(stand)
    stand.faults.before("promote_due", error=lambda: error("x"))
    with pytest.raises(error):
        promoter.promote()
    assert bool(rooms.outage.seconds) is (error is BackendUnavailable)
