"""One turn after the other: settle, lease, call in, wait. No threads here but where one must return meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from scheduler.errors import BackendClosed, BackendUnavailable
from scheduler.leases import Completion, Failure, Lease
from scheduler.states import JobState
from scheduler.worker.outcome import Outcome, Verdict
from scheduler.worker.pump import Pump
from scheduler.worker.rows import Row
from worker.stand import Rooms, Stand


class Pumped(Rooms):
    """A pump whose threads never come: the test runs the jobs itself."""

    def __init__(self, stand: Stand, **changes: object) -> None:
        super().__init__(stand, **changes)
        self.called: list[int] = []
        self.stopping = False
        self.pump = Pump(self.run, self.inflight, call_in=self.called.append, stopping=lambda: self.stopping)

    def turn(self) -> None:
        """A turn that does not wait for long: the bell has been rung."""
        self.run.doorbell.ring()
        self.pump.turn()

    def start(self) -> Row:
        row = self.inflight.begin()
        assert row is not None
        return row

    def complete(self, row: Row) -> None:
        self.inflight.finish(row, Outcome(Verdict.COMPLETE, Completion(lease=row.lease)))


@pytest.fixture
def pumped(stand: Stand) -> Callable[..., Pumped]:
    return lambda **changes: Pumped(stand, **changes)


Make = Callable[..., Pumped]


def test_a_turn_leases_as_much_as_there_is_room_for_and_calls_threads_in(stand: Stand, pumped: Make) -> None:
    rooms = pumped(concurrency=3, queue_buffer=1)
    stand.add_many(10)
    rooms.turn()
    assert (rooms.inflight.held, rooms.called) == (6, [3])
    assert stand.watch.counts["leased"] == 6


def test_a_batch_is_never_larger_than_batch_size(stand: Stand, pumped: Make) -> None:
    rooms = pumped(concurrency=10, queue_buffer=3, batch_size=4)
    stand.add_many(10)
    rooms.turn()
    assert rooms.inflight.held == 4
    rooms.turn()
    rooms.turn()
    limits = [call.kwargs["limit"] for call in stand.faults.calls if call.method == "lease"]
    assert limits == [4, 4, 4]
    assert rooms.inflight.held == 10


def test_without_room_nothing_is_asked_of_the_store(stand: Stand, pumped: Make) -> None:
    rooms = pumped(concurrency=2, queue_buffer=0)
    stand.add_many(5)
    rooms.turn()
    asked = stand.faults.count("lease")
    rooms.turn()
    rooms.turn()
    assert stand.faults.count("lease") == asked


def test_a_small_lease_waits_until_a_thread_would_be_without_work(stand: Stand, pumped: Make) -> None:
    """With a buffer there is no call of the store for each job that ends."""
    rooms = pumped(concurrency=2, queue_buffer=2)
    stand.add_many(20)
    rooms.turn()
    assert (rooms.inflight.held, stand.faults.count("lease")) == (6, 1)
    rows = [rooms.start(), rooms.start()]
    for _ in range(2):
        rooms.complete(rows.pop())
        rooms.turn()
        assert stand.faults.count("lease") == 1
    assert rooms.inflight.buffered == 2
    rooms.turn()
    row = rooms.inflight.begin()
    assert row is not None
    rooms.turn()
    assert stand.faults.count("lease") == 2


def test_outcomes_are_recorded_before_more_is_leased(stand: Stand, pumped: Make) -> None:
    rooms = pumped(concurrency=1, queue_buffer=0)
    first, second = stand.add(), stand.add()
    rooms.turn()
    row = rooms.start()
    rooms.complete(row)
    rooms.turn()
    assert stand.state(row.lease.job.id) is JobState.SUCCEEDED
    assert {stand.state(first.id), stand.state(second.id)} == {JobState.SUCCEEDED, JobState.LEASED}
    assert rooms.pump.settled == 1
    assert stand.watch.counts["settled.complete"] == 1


def test_it_waits_for_a_poll_when_there_is_nothing_to_do_and_not_otherwise(stand: Stand, pumped: Make) -> None:
    rooms = pumped(poll_interval=0.05)
    began = time.monotonic()
    rooms.pump.turn()
    assert time.monotonic() - began >= 0.04
    stand.add_many(rooms.run.config.batch_size)
    assert rooms.pump._work() == 0.0


def test_after_a_short_answer_it_asks_again_soon(stand: Stand, pumped: Make) -> None:
    rooms = pumped(poll_interval=3_600.0)
    stand.add()
    assert 0.0 < rooms.pump._work() <= 0.01


def test_a_ring_ends_the_wait(stand: Stand, pumped: Make) -> None:
    rooms = pumped(poll_interval=3_600.0)
    ringer = threading.Timer(0.01, rooms.run.doorbell.ring)
    ringer.start()
    rooms.pump.turn()
    ringer.join()


# ---- lost answers


def test_a_lease_whose_answer_was_lost_is_asked_for_again_with_the_same_token(stand: Stand, pumped: Make) -> None:
    rooms = pumped(concurrency=4, queue_buffer=0)
    stand.add_many(3)
    stand.faults.after("lease")
    rooms.stopping = True  # a back-off would be waited out otherwise
    rooms.turn()
    assert (rooms.inflight.held, stand.counts()[JobState.LEASED]) == (0, 3)
    rooms.turn()
    assert (rooms.inflight.held, stand.counts()[JobState.LEASED]) == (3, 3)
    tokens = [call.kwargs["token"] for call in stand.faults.calls if call.method == "lease"]
    assert len(tokens) == 2
    assert len(set(tokens)) == 1
    rooms.turn()
    assert all(job.attempts == 1 for job in stand.backend.wrapped.list(stand.queue, JobState.LEASED).jobs)


def test_a_lease_that_is_answered_is_followed_by_another_token(stand: Stand, pumped: Make) -> None:
    rooms = pumped(concurrency=4)
    for _ in range(3):
        rooms.turn()
    tokens = [call.kwargs["token"] for call in stand.faults.calls if call.method == "lease"]
    assert len(set(tokens)) == len(tokens) >= 3


def test_whatever_goes_wrong_before_the_jobs_are_taken_in_is_a_lost_answer_too(stand: Stand, pumped: Make) -> None:
    rooms = pumped(concurrency=4, queue_buffer=0)
    stand.add_many(3)

    def no_more_threads(count: int) -> None:
        raise RuntimeError("can't start new thread")

    rooms.pump._call_in = no_more_threads
    with pytest.raises(RuntimeError):
        rooms.turn()
    assert rooms.pump.in_doubt
    rooms.inflight.start_no_more()
    rooms.pump._call_in = rooms.called.append
    assert rooms.pump.give_back()
    while rooms.pump.settle():
        pass
    assert stand.counts()[JobState.READY] == 3
    assert rooms.inflight.held == 0


@pytest.mark.parametrize("verdict", ["complete", "retry", "bury", "release"])
def test_a_settle_call_whose_answer_was_lost_counts_as_done(stand: Stand, pumped: Make, verdict: str) -> None:
    """Its repeat is refused by the store, which is no lost lease."""
    rooms = pumped(concurrency=1, queue_buffer=0)
    stand.add()
    rooms.turn()
    row = rooms.start()
    rooms.inflight.finish(row, _outcome(Verdict(verdict), row))
    stand.faults.after(verdict)
    with pytest.raises(BackendUnavailable):
        rooms.pump.settle()
    assert rooms.inflight.held == 1
    assert rooms.pump.settle()
    assert rooms.inflight.held == 0
    assert rooms.pump.settled + rooms.pump.released == 1
    counts = stand.watch.counts
    assert counts[f"settled.{verdict}"] == 1
    assert not [name for name in counts if name.startswith("lost") and counts[name]]


@pytest.mark.parametrize("verdict", ["complete", "retry", "bury", "release"])
def test_a_settle_call_of_a_job_that_another_holds_is_a_lost_lease(
    stand: Stand, pumped: Make, verdict: str, caplog: pytest.LogCaptureFixture
) -> None:
    rooms = pumped(concurrency=1, queue_buffer=0)
    stand.add()
    rooms.turn()
    row = rooms.start()
    stand.backend.wrapped.release([row.lease])
    rooms.inflight.finish(row, _outcome(Verdict(verdict), row))
    rooms.pump.settle()
    assert rooms.pump.settled + rooms.pump.released == 0
    assert stand.watch.counts[f"lost.{verdict}"] == 1
    assert "1 leases were lost" in caplog.text
    assert stand.state(row.lease.job.id) is JobState.READY


def _outcome(verdict: Verdict, row: Row) -> Outcome:
    orders: dict[Verdict, Completion | Failure | Lease] = {
        Verdict.COMPLETE: Completion(lease=row.lease),
        Verdict.RETRY: Failure(lease=row.lease),
        Verdict.BURY: Failure(lease=row.lease),
        Verdict.RELEASE: row.lease,
    }
    return Outcome(verdict, orders[verdict])


def test_what_one_verdict_could_not_record_keeps_no_other_from_being_recorded_later(stand: Stand, pumped: Make) -> None:
    rooms = pumped(concurrency=4, queue_buffer=0)
    stand.add_many(4)
    rooms.turn()
    rows = [rooms.start() for _ in range(4)]
    for row, verdict in zip(rows, Verdict, strict=True):
        rooms.inflight.finish(row, _outcome(verdict, row))
    stand.faults.before("retry")
    with pytest.raises(BackendUnavailable):
        rooms.pump.settle()
    assert rooms.inflight.held == 3, "complete came first, and was recorded"
    while rooms.pump.settle():
        pass
    assert rooms.inflight.held == 0
    # retry without a delay, and release, are ready again
    assert stand.counts() == dict.fromkeys(JobState, 0) | {
        JobState.SUCCEEDED: 1,
        JobState.DEAD: 1,
        JobState.READY: 2,
    }


def test_a_lost_answer_and_a_renewal_after_it_are_no_lost_lease(stand: Stand, pumped: Make) -> None:
    rooms = pumped(concurrency=1, queue_buffer=0)
    stand.add()
    rooms.turn()
    row = rooms.start()
    rooms.complete(row)
    stand.faults.after("complete")
    with pytest.raises(BackendUnavailable):
        rooms.pump.settle()
    renewal = stand.backend.renew(rooms.inflight.renewable(), 30.0)
    assert list(renewal.refused) == [row.lease]
    assert rooms.inflight.mark_lost(renewal.refused) == 0
    assert rooms.pump.settle()
    assert (rooms.pump.settled, rooms.inflight.held, rooms.pump._uncertain) == (1, 0, set())


# ---- a store that is away


def test_a_store_that_is_away_is_not_asked_sooner_because_handlers_return(stand: Stand, pumped: Make) -> None:
    """No busy loop: rings do not shorten the back-off."""
    rooms = pumped(concurrency=8)
    stand.faults.before("lease", times=None)
    stop = threading.Event()

    def ring() -> None:
        while not stop.is_set():
            rooms.run.doorbell.ring()
            stop.wait(0.001)

    ringer = threading.Thread(target=ring)
    ringer.start()
    began = time.monotonic()
    for _ in range(4):
        rooms.pump.turn()
    took = time.monotonic() - began
    stop.set()
    ringer.join()
    assert stand.faults.count("lease") == 4
    assert took >= 0.05 + 0.1 + 0.2 + 0.4  # half of 0.1, 0.2, 0.4, 0.8


def test_a_stop_ends_the_back_off_at_once(stand: Stand, pumped: Make) -> None:
    rooms = pumped()
    stand.faults.before("lease", times=None)
    rooms.stopping = True
    for _ in range(30):  # a minute of back-offs
        rooms.turn()
    assert stand.faults.count("lease") == 30


def test_after_an_outage_the_back_off_begins_anew(stand: Stand, pumped: Make) -> None:
    rooms = pumped(poll_interval=0.001)
    rooms.stopping = True
    stand.faults.before("lease", times=6)
    for _ in range(7):
        rooms.turn()
    assert rooms.pump._back_off._failures == 0


@pytest.mark.parametrize("error", [BackendClosed, ZeroDivisionError, SystemExit])
@pytest.mark.parametrize("method", ["lease", "complete"])
def test_what_no_repeat_heals_is_raised(stand: Stand, pumped: Make, method: str, error: type[BaseException]) -> None:
    rooms = pumped(concurrency=1, queue_buffer=0)
    stand.add()
    if method == "complete":
        rooms.turn()
        rooms.complete(rooms.start())
    stand.faults.before(method, error=lambda: error("x"))
    with pytest.raises(error):
        rooms.turn()
    if method == "complete":
        assert rooms.inflight.held == 1, "the outcome is kept"


def test_nothing_in_doubt_is_nothing_to_give_back(stand: Stand, pumped: Make) -> None:
    rooms = pumped()
    assert not rooms.pump.in_doubt
    assert not rooms.pump.give_back()
    assert stand.faults.count("lease") == 0
