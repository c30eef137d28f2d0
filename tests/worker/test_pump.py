"""One turn after the other: settle, lease, call in, wait. No threads here but where one must return meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scheduler.errors import BackendClosed, BackendUnavailable
from scheduler.leases import Completion, Failure, Lease
from scheduler.states import JobState
from scheduler.worker.inflight import HeldJob
from scheduler.worker.outcome import Outcome, Verdict
from scheduler.worker.pump import Pump
from worker.harness import SOON, WorkerHarness, WorkerParts


class Pumped(WorkerParts):
    """A pump whose threads never come: the test runs the jobs itself."""

    def __init__(self, harness: WorkerHarness, **changes: object) -> None:
        super().__init__(harness, **changes)
        self.called: list[int] = []
        self.pump = Pump(self.run, self.inflight, wake_threads=self.called.append)

    def turn(self) -> float:
        return self.pump.turn()

    def start(self) -> HeldJob:
        row = self.inflight.begin()
        assert row is not None
        return row

    def complete(self, row: HeldJob) -> None:
        self.inflight.finish(row, Outcome(Verdict.COMPLETE, Completion(lease=row.lease)))


@pytest.fixture
def pumped(harness: WorkerHarness) -> Callable[..., Pumped]:
    return lambda **changes: Pumped(harness, **changes)


Make = Callable[..., Pumped]


def test_a_turn_leases_as_much_as_there_is_room_for_and_wakes_threads(harness: WorkerHarness, pumped: Make) -> None:
    parts = pumped(concurrency=3, queue_buffer=1)
    harness.add_many(10)
    parts.turn()
    assert (parts.inflight.held, parts.called) == (6, [3])
    assert harness.watch.counts["leased"] == 6


def test_a_batch_is_never_larger_than_batch_size(harness: WorkerHarness, pumped: Make) -> None:
    parts = pumped(concurrency=10, queue_buffer=3, batch_size=4)
    harness.add_many(10)
    parts.turn()
    assert parts.inflight.held == 4
    parts.turn()
    parts.turn()
    limits = [call.kwargs["limit"] for call in harness.faults.calls if call.method == "lease"]
    assert limits == [4, 4, 4]
    assert parts.inflight.held == 10


def test_without_room_nothing_is_asked_of_the_store(harness: WorkerHarness, pumped: Make) -> None:
    parts = pumped(concurrency=2, queue_buffer=0)
    harness.add_many(5)
    parts.turn()
    asked = harness.faults.count("lease")
    parts.turn()
    parts.turn()
    assert harness.faults.count("lease") == asked


def test_a_small_lease_waits_until_a_thread_would_be_without_work(harness: WorkerHarness, pumped: Make) -> None:
    """With a buffer there is no call of the store for each job that ends."""
    parts = pumped(concurrency=2, queue_buffer=2)
    harness.add_many(20)
    parts.turn()
    assert (parts.inflight.held, harness.faults.count("lease")) == (6, 1)
    rows = [parts.start(), parts.start()]
    for _ in range(2):
        parts.complete(rows.pop())
        parts.turn()
        assert harness.faults.count("lease") == 1
    assert len(parts.inflight._buffered) == 2
    parts.turn()
    row = parts.inflight.begin()
    assert row is not None
    parts.turn()
    assert harness.faults.count("lease") == 2


def test_outcomes_are_recorded_before_more_is_leased(harness: WorkerHarness, pumped: Make) -> None:
    parts = pumped(concurrency=1, queue_buffer=0)
    first, second = harness.add(), harness.add()
    parts.turn()
    row = parts.start()
    parts.complete(row)
    parts.turn()
    assert harness.state(row.lease.job.id) is JobState.SUCCEEDED
    assert {harness.state(first.id), harness.state(second.id)} == {JobState.SUCCEEDED, JobState.LEASED}
    assert parts.pump.settled == 1
    assert harness.watch.counts["settled.complete"] == 1


def test_it_waits_for_a_poll_when_there_is_nothing_to_do_and_not_otherwise(
    harness: WorkerHarness, pumped: Make
) -> None:
    parts = pumped(poll_interval=0.05)
    assert 0.04 <= parts.turn() <= 0.06
    harness.add_many(parts.run.config.batch_size)
    assert parts.turn() == 0.0


def test_after_a_short_answer_it_asks_again_soon(harness: WorkerHarness, pumped: Make) -> None:
    parts = pumped(poll_interval=3_600.0)
    harness.add()
    assert 0.0 < parts.turn() <= 0.01


def test_after_a_request_to_stop_nothing_is_leased(harness: WorkerHarness, pumped: Make) -> None:
    parts = pumped()
    harness.add()
    parts.shutdown.request(SOON)
    assert parts.turn() > 0.0
    assert harness.faults.count("lease") == 0


# ---- lost answers


def test_a_lease_whose_answer_was_lost_is_asked_for_again_with_the_same_token(
    harness: WorkerHarness, pumped: Make
) -> None:
    parts = pumped(concurrency=4, queue_buffer=0)
    harness.add_many(3)
    harness.faults.after("lease")
    with pytest.raises(BackendUnavailable):
        parts.turn()
    assert (parts.inflight.held, harness.counts()[JobState.LEASED]) == (0, 3)
    parts.turn()
    assert (parts.inflight.held, harness.counts()[JobState.LEASED]) == (3, 3)
    tokens = [call.kwargs["token"] for call in harness.faults.calls if call.method == "lease"]
    assert len(tokens) == 2
    assert len(set(tokens)) == 1
    parts.turn()
    assert all(job.attempts == 1 for job in harness.backend.wrapped.list(harness.queue, JobState.LEASED).jobs)


def test_a_lease_that_is_answered_is_followed_by_another_token(harness: WorkerHarness, pumped: Make) -> None:
    parts = pumped(concurrency=4)
    for _ in range(3):
        parts.turn()
    tokens = [call.kwargs["token"] for call in harness.faults.calls if call.method == "lease"]
    assert len(set(tokens)) == len(tokens) >= 3


def test_whatever_goes_wrong_before_the_jobs_are_taken_in_is_a_lost_answer_too(
    harness: WorkerHarness, pumped: Make
) -> None:
    parts = pumped(concurrency=4, queue_buffer=0)
    harness.add_many(3)

    def no_more_threads(count: int) -> None:
        raise RuntimeError("can't start new thread")

    parts.pump._wake_threads = no_more_threads
    with pytest.raises(RuntimeError):
        parts.turn()
    assert parts.pump._unanswered is not None
    parts.inflight.start_no_more()
    parts.pump._wake_threads = parts.called.append
    assert parts.pump.give_back()
    while parts.pump.settle():
        pass
    assert harness.counts()[JobState.READY] == 3
    assert parts.inflight.held == 0


@pytest.mark.parametrize("verdict", ["complete", "retry", "bury", "release"])
def test_a_settle_call_whose_answer_was_lost_counts_as_done(harness: WorkerHarness, pumped: Make, verdict: str) -> None:
    """Its repeat is refused by the store, which is no lost lease."""
    parts = pumped(concurrency=1, queue_buffer=0)
    harness.add()
    parts.turn()
    row = parts.start()
    parts.inflight.finish(row, _outcome(Verdict(verdict), row))
    harness.faults.after(verdict)
    with pytest.raises(BackendUnavailable):
        parts.pump.settle()
    assert parts.inflight.held == 1
    assert parts.pump.settle()
    assert parts.inflight.held == 0
    assert parts.pump.settled + parts.pump.released == 1
    counts = harness.watch.counts
    assert counts[f"settled.{verdict}"] == 1
    assert not [name for name in counts if name.startswith("lost") and counts[name]]


@pytest.mark.parametrize("verdict", ["complete", "retry", "bury", "release"])
def test_a_settle_call_of_a_job_that_another_holds_is_a_lost_lease(
    harness: WorkerHarness, pumped: Make, verdict: str, caplog: pytest.LogCaptureFixture
) -> None:
    parts = pumped(concurrency=1, queue_buffer=0)
    harness.add()
    parts.turn()
    row = parts.start()
    harness.backend.wrapped.release([row.lease])
    parts.inflight.finish(row, _outcome(Verdict(verdict), row))
    parts.pump.settle()
    assert parts.pump.settled + parts.pump.released == 0
    assert harness.watch.counts[f"lost.{verdict}"] == 1
    assert "1 leases were lost" in caplog.text
    assert harness.state(row.lease.job.id) is JobState.READY


def _outcome(verdict: Verdict, row: HeldJob) -> Outcome:
    orders: dict[Verdict, Completion | Failure | Lease] = {
        Verdict.COMPLETE: Completion(lease=row.lease),
        Verdict.RETRY: Failure(lease=row.lease),
        Verdict.BURY: Failure(lease=row.lease),
        Verdict.RELEASE: row.lease,
    }
    return Outcome(verdict, orders[verdict])


def test_what_one_verdict_could_not_record_keeps_no_other_from_being_recorded_later(
    harness: WorkerHarness, pumped: Make
) -> None:
    parts = pumped(concurrency=4, queue_buffer=0)
    harness.add_many(4)
    parts.turn()
    rows = [parts.start() for _ in range(4)]
    for row, verdict in zip(rows, Verdict, strict=True):
        parts.inflight.finish(row, _outcome(verdict, row))
    harness.faults.before("retry")
    with pytest.raises(BackendUnavailable):
        parts.pump.settle()
    assert parts.inflight.held == 3, "complete came first, and was recorded"
    while parts.pump.settle():
        pass
    assert parts.inflight.held == 0
    # retry without a delay, and release, are ready again
    assert harness.counts() == dict.fromkeys(JobState, 0) | {
        JobState.SUCCEEDED: 1,
        JobState.DEAD: 1,
        JobState.READY: 2,
    }


def test_a_lost_answer_and_a_renewal_after_it_are_no_lost_lease(harness: WorkerHarness, pumped: Make) -> None:
    parts = pumped(concurrency=1, queue_buffer=0)
    harness.add()
    parts.turn()
    row = parts.start()
    parts.complete(row)
    harness.faults.after("complete")
    with pytest.raises(BackendUnavailable):
        parts.pump.settle()
    renewal = harness.backend.renew(parts.inflight.renewable(), 30.0)
    assert list(renewal.refused) == [row.lease]
    assert parts.inflight.mark_lost(renewal.refused) == 0
    assert parts.pump.settle()
    assert (parts.pump.settled, parts.inflight.held, parts.pump._uncertain) == (1, 0, set())


@pytest.mark.parametrize("error", [BackendClosed, ZeroDivisionError, SystemExit])
@pytest.mark.parametrize("method", ["lease", "complete"])
def test_an_error_that_no_repeat_can_fix_is_raised(
    harness: WorkerHarness, pumped: Make, method: str, error: type[BaseException]
) -> None:
    parts = pumped(concurrency=1, queue_buffer=0)
    harness.add()
    if method == "complete":
        parts.turn()
        parts.complete(parts.start())
    harness.faults.before(method, error=lambda: error("x"))
    with pytest.raises(error):
        parts.turn()
    if method == "complete":
        assert parts.inflight.held == 1, "the outcome is kept"


def test_nothing_in_doubt_is_nothing_to_give_back(harness: WorkerHarness, pumped: Make) -> None:
    parts = pumped()
    assert parts.pump._unanswered is None
    assert not parts.pump.give_back()
    assert harness.faults.count("lease") == 0
