"""Jobs become ready the moment they are due: turn by turn, without the promoter's thread."""

from __future__ import annotations

import pytest

from scheduler.backend import WAKE_HORIZON, Wakeups
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


def test_a_due_time_past_the_next_poll_rings_once_it_has_passed(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    """The poll that comes first tells of nothing any more: the job became due just before it."""
    promoter, rooms = a_promoter(stand)
    answer(stand, monkeypatch, Promotion(moved=0, next_due=1.3), Promotion(moved=0, next_due=None))
    assert 0.8 <= promoter.promote() <= 1.2
    promoter.promote()
    assert rooms.run.doorbell.wait(0.0)


def test_a_due_time_that_gives_way_to_a_later_one_rings(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    promoter, rooms = a_promoter(stand)
    answer(stand, monkeypatch, Promotion(moved=0, next_due=20.0), Promotion(moved=0, next_due=40.0))
    promoter.promote()
    promoter.promote()
    assert rooms.run.doorbell.wait(0.0)


def test_the_same_due_time_told_again_rings_nobody(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    promoter, rooms = a_promoter(stand)
    answer(stand, monkeypatch, *[Promotion(moved=0, next_due=20.0)] * 5)
    for _ in range(5):
        promoter.promote()
    assert not rooms.run.doorbell.wait(0.0)


def test_news_of_a_job_that_is_due_by_the_time_of_the_call_rings_the_pump(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A delay of a millisecond is over before the promoter has asked, and nobody else tells the pump."""
    promoter, rooms = a_promoter(stand)
    answer(stand, monkeypatch, *[Promotion(moved=0, next_due=None)] * 2)
    promoter.sooner()
    promoter.promote()
    assert rooms.run.doorbell.wait(0.0)
    promoter.promote()
    assert not rooms.run.doorbell.wait(0.0), "once"


def test_news_is_kept_while_the_store_does_not_answer(stand: Stand) -> None:
    promoter, rooms = a_promoter(stand)
    stand.faults.before("promote_due", times=1)
    promoter.sooner()
    with pytest.raises(BackendUnavailable):
        promoter.promote()
    promoter.promote()
    assert rooms.run.doorbell.wait(0.0)


def test_a_long_poll_interval_does_not_pass_the_horizon_of_the_wake_ups(stand: Stand) -> None:
    """A waiter may be silent about a job due later than the horizon: it must be seen before it is due."""
    promoter, _ = a_promoter(stand, poll_interval=3_600.0)
    assert promoter.promote() <= WAKE_HORIZON / 2


@pytest.mark.every_store
def test_jobs_due_in_a_moment_wait_for_no_poll(stand: Stand) -> None:
    """An idle worker that polls every minute: each of these would wait for that if its wake-up were missed."""
    if not isinstance(stand.backend, Wakeups):
        pytest.skip("a store without wake-ups is polled")
    with stand.worker(stand.count_runs, poll_interval=60.0):
        stand.until_finished(stand.add().id)
        for number in range(60):
            stand.until_finished(stand.add(delay=0.0005 + number * 0.0001).id)
    assert stand.runs.total() == 61


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
