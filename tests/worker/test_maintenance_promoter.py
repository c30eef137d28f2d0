"""Jobs become ready the moment they are due: turn by turn, without the promoter's thread."""

from __future__ import annotations

import pytest

from scheduler.abilities import WAKE_HORIZON, Wakeups
from scheduler.errors import BackendClosed, BackendUnavailable
from scheduler.leases import Promotion
from scheduler.states import JobState
from scheduler.worker.maintenance import Promoter
from worker.harness import WorkerHarness, WorkerParts


def a_promoter(harness: WorkerHarness, **changes: object) -> tuple[Promoter, WorkerParts]:
    parts = WorkerParts(harness, **{"poll_interval": 1.0, **changes})
    return Promoter(parts.run), parts


def answer(harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch, *answers: Promotion) -> None:
    """Let the store answer this, one after the other."""
    left = list(answers)
    monkeypatch.setattr(type(harness.backend), "promote_due", lambda self, queues, limit: left.pop(0))


def test_what_is_due_becomes_ready_and_wakes_the_pump(harness: WorkerHarness) -> None:
    promoter, parts = a_promoter(harness)
    job = harness.add(delay=0.5)
    promoter.promote()  # before it is due: a store that derives ready moves nothing, so that its time is waited for
    harness.until(lambda: promoter.promote() > 0.0 and harness.state(job.id) is JobState.READY)
    assert parts.run.wake_event.wait(0.0)


def test_it_sleeps_until_the_next_due_time_and_no_longer_than_a_poll(harness: WorkerHarness) -> None:
    promoter, _ = a_promoter(harness)
    assert 0.8 <= promoter.promote() <= 1.2
    harness.add(delay=3_600.0)
    assert 0.8 <= promoter.promote() <= 1.2
    harness.add(delay=0.5)
    assert 0.0 < promoter.promote() <= 0.501  # a store may round to a millisecond, upwards


def test_fallback_polls_are_jittered(harness: WorkerHarness) -> None:
    promoter, _ = a_promoter(harness)
    assert len({promoter.promote() for _ in range(20)}) == 20


def test_a_due_time_that_was_waited_for_wakes_the_pump_whatever_was_moved(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that derives ready moves nothing, and another worker may have promoted."""
    promoter, parts = a_promoter(harness)
    answer(harness, monkeypatch, Promotion(moved=0, next_due=0.3), Promotion(moved=0, next_due=None))
    assert promoter.promote() == 0.3
    assert not parts.run.wake_event.wait(0.0)
    promoter.promote()
    assert parts.run.wake_event.wait(0.0)


def test_a_due_time_past_the_next_poll_wakes_the_pump_once_it_has_passed(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The poll that comes first tells of nothing any more: the job became due just before it."""
    promoter, parts = a_promoter(harness)
    answer(harness, monkeypatch, Promotion(moved=0, next_due=1.3), Promotion(moved=0, next_due=None))
    assert 0.8 <= promoter.promote() <= 1.2
    promoter.promote()
    assert parts.run.wake_event.wait(0.0)


def test_a_due_time_followed_by_a_later_one_wakes_the_pump(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    promoter, parts = a_promoter(harness)
    answer(harness, monkeypatch, Promotion(moved=0, next_due=20.0), Promotion(moved=0, next_due=40.0))
    promoter.promote()
    promoter.promote()
    assert parts.run.wake_event.wait(0.0)


def test_the_same_due_time_returned_again_does_not_wake_the_pump(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    promoter, parts = a_promoter(harness)
    answer(harness, monkeypatch, *[Promotion(moved=0, next_due=20.0)] * 5)
    for _ in range(5):
        promoter.promote()
    assert not parts.run.wake_event.wait(0.0)


def test_a_wake_up_for_a_job_that_is_due_by_the_time_of_the_call_wakes_the_pump(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A delay of a millisecond is over before the promoter has asked, and nobody else tells the pump."""
    promoter, parts = a_promoter(harness)
    answer(harness, monkeypatch, *[Promotion(moved=0, next_due=None)] * 2)
    promoter.sooner()
    promoter.promote()
    assert parts.run.wake_event.wait(0.0)
    promoter.promote()
    assert not parts.run.wake_event.wait(0.0), "once"


def test_a_wake_up_is_kept_while_the_store_is_away(harness: WorkerHarness) -> None:
    promoter, parts = a_promoter(harness)
    harness.faults.before("promote_due", times=1)
    promoter.sooner()
    with pytest.raises(BackendUnavailable):
        promoter.promote()
    promoter.promote()
    assert parts.run.wake_event.wait(0.0)


def test_a_long_poll_interval_does_not_pass_the_horizon_of_the_wake_ups(harness: WorkerHarness) -> None:
    """A waiter may be silent about a job due later than the horizon: it must be seen before it is due."""
    promoter, _ = a_promoter(harness, poll_interval=3_600.0)
    assert promoter.promote() <= WAKE_HORIZON / 2


@pytest.mark.every_store
def test_jobs_due_in_a_moment_wait_for_no_poll(harness: WorkerHarness) -> None:
    """An idle worker that polls every minute: each of these would wait for that if its wake-up were missed."""
    if not isinstance(harness.backend, Wakeups):
        pytest.skip("a store without wake-ups is polled")
    with harness.worker(harness.count_runs, poll_interval=60.0):
        harness.until_finished(harness.add().id)
        for number in range(60):
            harness.until_finished(harness.add(delay=0.0005 + number * 0.0001).id)
    assert harness.runs.total() == 61


def test_nothing_moved_and_nothing_awaited_does_not_wake_the_pump(harness: WorkerHarness) -> None:
    promoter, parts = a_promoter(harness)
    for _ in range(3):
        promoter.promote()
    assert not parts.run.wake_event.wait(0.0)


def test_more_due_than_one_call_moves_is_followed_at_once(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    promoter, _ = a_promoter(harness)
    answer(harness, monkeypatch, Promotion(moved=1_000, next_due=0.0))
    assert promoter.promote() == 0.0
    assert harness.watch.counts["promoted"] == 1_000


def test_a_due_time_that_comes_and_moves_nothing_does_not_make_it_spin(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    promoter, _ = a_promoter(harness)
    answer(harness, monkeypatch, Promotion(moved=0, next_due=0.0))
    assert promoter.promote() > 0.0


@pytest.mark.parametrize("error", [BackendUnavailable, BackendClosed, ZeroDivisionError])
def test_errors_are_the_tickers_business(harness: WorkerHarness, error: type[Exception]) -> None:
    promoter, parts = a_promoter(harness)
    harness.faults.before("promote_due", error=lambda: error("x"))
    with pytest.raises(error):
        promoter.promote()
    assert bool(parts.outage.seconds) is (error is BackendUnavailable)
