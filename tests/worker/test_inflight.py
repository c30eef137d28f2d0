"""The table of everything a worker holds: its arithmetic, and what it gives back, keeps and forgets."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence

import pytest

from scheduler.config import WorkerConfig
from scheduler.identity import new_token
from scheduler.jobs import Job
from scheduler.leases import Completion, Failure, Lease
from scheduler.serializers import JsonSerializer
from scheduler.worker.context import JobContext
from scheduler.worker.inflight import HeldJob, InFlight
from scheduler.worker.outcome import Outcome, Verdict
from worker.harness import SOON
from worker.test_runner import a_lease


class Table(InFlight):
    """Counts the wake-ups of the deadlines' thread."""

    def __init__(self, *, lease_duration: float = 30.0, **config: object) -> None:
        self.wake_ups = 0
        chosen = WorkerConfig(lease_duration=lease_duration, heartbeat_interval=lease_duration / 3, **config)  # type: ignore[arg-type]  # by name
        super().__init__(chosen, open_context=_open, wake_deadlines=self._count)

    def _count(self) -> None:
        self.wake_ups += 1

    def take(self, count: int = 1, **fields: object) -> list[Lease]:
        """Take in so many jobs, of one lease call."""
        leases = some(count, **fields)
        self.take_in(leases)
        return leases

    def start(self) -> HeldJob:
        row = self.begin()
        assert row is not None
        return row

    def settle(self, limit: int = 1_000) -> list[Outcome]:
        """Record everything, as the pump does when the store answers."""
        outcomes = self.unsent(limit)
        self.forget(outcome.lease for outcome in outcomes)
        return outcomes


def _open(job: Job) -> JobContext:
    return JobContext(job, JsonSerializer().loads)


_numbers = iter(range(10**9))


def some(count: int, **fields: object) -> list[Lease]:
    token = new_token()
    leases = []
    for _ in range(count):
        lease = a_lease(**{"id": f"job-{next(_numbers)}", **fields})
        leases.append(Lease(job=lease.job, token=token, expires_at=lease.expires_at))
    return leases


def done(row: HeldJob) -> Outcome:
    return Outcome(Verdict.COMPLETE, Completion(lease=row.lease))


def timed_out(row: HeldJob) -> Outcome:
    return Outcome(Verdict.RETRY, Failure(lease=row.lease))


def keys(leases: Sequence[Lease]) -> list[str]:
    return [lease.job.id for lease in leases]


# ---- how much room there is


@pytest.mark.parametrize(
    ("concurrency", "queue_buffer", "max_in_flight", "room"),
    [(4, 0, None, 4), (4, 1, None, 8), (4, 3, None, 16), (4, 3, 5, 5), (4, 0, 100, 4), (1, 0, 1, 1)],
)
def test_room_of_an_empty_table(concurrency: int, queue_buffer: int, max_in_flight: int | None, room: int) -> None:
    assert (
        Table(concurrency=concurrency, queue_buffer=queue_buffer, max_in_flight=max_in_flight).free_capacity() == room
    )


def test_room_shrinks_with_what_is_held_and_grows_when_it_is_recorded_not_when_it_ends() -> None:
    """An outcome that the store has not taken is still held: a store that is away pushes back on leasing."""
    table = Table(concurrency=2, queue_buffer=1)
    table.take(4)
    assert table.free_capacity() == 0
    row = table.start()
    assert table.free_capacity() == 0
    table.finish(row, done(row))
    assert (table.free_capacity(), table.held) == (0, 4)
    table.settle()
    assert (table.free_capacity(), table.held) == (1, 3)


def test_room_is_never_negative() -> None:
    """A repeated lease call may answer with more than there was room for."""
    table = Table(concurrency=1, queue_buffer=0)
    table.take(5)
    assert table.free_capacity() == 0


def test_a_stuck_thread_takes_its_share_of_the_room_with_it() -> None:
    table = Table(concurrency=4, queue_buffer=1)
    table.take(4)
    rows = [table.start() for _ in range(4)]
    for row in rows[:3]:
        assert table.give_up(row, timed_out(row))
    assert table.stuck == 3
    table.finish(rows[3], done(rows[3]))  # hoards again
    table.settle()
    assert table.free_capacity() == (4 - 3) * 2


def test_no_thread_left_is_no_room_for_anybody() -> None:
    table = Table(concurrency=2, queue_buffer=3)
    table.take(2)
    rows = [table.start(), table.start()]
    for row in rows:
        table.give_up(row, timed_out(row))
    table.settle()
    assert (table.held, table.stuck, table.free_capacity()) == (0, 2, 0)


def test_the_handler_of_a_lost_lease_still_takes_capacity() -> None:
    table = Table(concurrency=2, queue_buffer=0)
    (lease,) = table.take(1)
    row = table.start()
    assert table.mark_lost([lease]) == 1
    assert (table.held, table.unfinished, table.free_capacity()) == (0, 1, 1)
    table.finish(row, done(row))
    assert (table.unfinished, table.free_capacity()) == (0, 2)


def test_max_in_flight_counts_unsent_outcomes() -> None:
    table = Table(concurrency=2, queue_buffer=1, max_in_flight=3)
    table.take(3)
    for _ in range(2):
        row = table.start()
        table.finish(row, done(row))
    assert (table.held, table.unfinished, table.free_capacity()) == (3, 1, 0)


def test_when_a_thread_gets_stuck_nothing_is_hoarded_until_a_handler_returns() -> None:
    table = Table(concurrency=2, queue_buffer=3)
    table.take(8)
    stuck, other = table.start(), table.start()
    table.give_up(stuck, timed_out(stuck))
    assert len(table._buffered) == 0
    assert sorted(outcome.verdict for outcome in table.settle()) == [*[Verdict.RELEASE] * 6, Verdict.RETRY]
    assert table.free_capacity() == 0, "one thread is stuck and the other is busy"
    table.finish(other, done(other))
    table.settle()
    assert table.free_capacity() == 4, "hoards again, with the one thread that is left"


# ---- taking in


def test_a_repeat_of_a_lease_call_is_taken_in_once() -> None:
    table = Table(concurrency=4)
    leases = some(3)
    assert table.take_in(leases) == 3
    row = table.start()
    assert table.take_in(leases) == 0
    table.finish(row, done(row))
    table.take_in([*leases, *some(1)])
    assert (table.held, len(table._buffered)) == (4, 2)  # one of them was begun by finish


def test_the_same_job_under_a_new_token_is_another_lease() -> None:
    table = Table(concurrency=4)
    first, second = some(1, id="same"), some(1, id="same")
    table.take_in(first)
    table.take_in(second)
    assert table.held == 2
    assert table.mark_lost(first) == 1
    assert [row.lease for row in (table.start(),)] == second


def test_only_so_many_threads_are_called_in_as_there_are_jobs_and_threads() -> None:
    table = Table(concurrency=3, queue_buffer=3)
    assert table.take_in(some(2)) == 2
    assert table.take_in(some(4)) == 1
    assert table.take_in(some(1)) == 0
    for _ in range(3):
        table.start()
    assert table.take_in(some(1)) == 0


def test_a_thread_that_finds_nothing_is_called_in_again() -> None:
    table = Table(concurrency=1)
    assert table.take_in(some(1)) == 1
    row = table.start()
    assert table.finish(row, done(row)) is None
    assert table.take_in(some(1)) == 1


def test_jobs_start_in_the_order_in_which_they_were_leased() -> None:
    table = Table(concurrency=5)
    leases = table.take(5)
    assert [table.start().lease for _ in range(5)] == leases


# ---- outcomes


def test_an_outcome_is_offered_until_the_store_takes_it() -> None:
    """Guarantee 6."""
    table = Table(concurrency=3)
    table.take(3)
    rows = [table.start() for _ in range(3)]
    for row in rows:
        table.finish(row, done(row))
    for _ in range(5):
        offered = table.unsent(2)
        assert [outcome.lease for outcome in offered] == [rows[0].lease, rows[1].lease]
        table.keep(offered)
    assert [outcome.lease for outcome in table.settle()] == [row.lease for row in rows]
    assert (table.held, table.unsent(10)) == (0, [])


def test_every_held_lease_is_renewed_whether_buffered_running_or_unsent() -> None:
    """Guarantee 3."""
    table = Table(concurrency=2, queue_buffer=2)
    leases = table.take(5)
    row = table.start()
    table.finish(row, done(row))  # begins the next one too
    assert sorted(keys(table.renewable())) == sorted(keys(leases))


def test_past_its_giving_up_a_job_is_renewed_no_more() -> None:
    """Guarantee 4: though its outcome is not recorded yet."""
    table = Table(concurrency=2, queue_buffer=0)
    leases = table.take(2)
    row = table.start()
    table.give_up(row, timed_out(row))
    assert table.renewable() == leases[1:] or table.renewable() == []
    assert row.lease not in table.renewable()


def test_the_late_outcome_of_a_stuck_thread_is_dropped() -> None:
    table = Table(concurrency=1, queue_buffer=0)
    table.take(1)
    row = table.start()
    assert table.give_up(row, timed_out(row))
    assert table.finish(row, done(row)) is None
    assert [outcome.verdict for outcome in table.settle()] == [Verdict.RETRY]
    assert (table.stuck, table.held, table.free_capacity()) == (0, 0, 1)


def test_a_thread_that_has_returned_cannot_be_given_up() -> None:
    table = Table(concurrency=1, queue_buffer=0)
    table.take(1)
    row = table.start()
    table.finish(row, done(row))
    assert not table.give_up(row, timed_out(row))
    assert [outcome.verdict for outcome in table.settle()] == [Verdict.COMPLETE]
    assert table.stuck == 0


def test_a_stuck_thread_that_returns_goes_on_working() -> None:
    table = Table(concurrency=1, queue_buffer=0)
    table.take(1)
    row = table.start()
    table.give_up(row, timed_out(row))
    (lease,) = table.take(1)
    following = table.finish(row, done(row))
    assert following is not None
    assert following.lease == lease


# ---- lost leases


def test_the_handler_of_a_lost_job_is_cancelled_and_its_outcome_is_dropped() -> None:
    table = Table(concurrency=1, queue_buffer=0)
    leases = table.take(1)
    row = table.start()
    assert row.context is not None
    assert table.mark_lost(leases) == 1
    assert row.context.reason == "lease lost"
    table.finish(row, done(row))
    assert (table.unsent(10), table.held) == ([], 0)


def test_a_lost_job_that_waits_never_starts() -> None:
    table = Table(concurrency=1, queue_buffer=3)
    leases = table.take(3)
    table.mark_lost(leases[1:2])
    assert [table.start().lease for _ in range(2)] == [leases[0], leases[2]]
    assert table.begin() is None


def test_a_lost_job_whose_outcome_waits_is_not_offered() -> None:
    table = Table(concurrency=2, queue_buffer=0)
    table.take(2)
    rows = [table.start() for _ in range(2)]
    for row in rows:
        table.finish(row, done(row))
    assert table.mark_lost([rows[0].lease]) == 1
    assert [outcome.lease for outcome in table.settle()] == [rows[1].lease]


def test_what_was_settled_meanwhile_is_not_lost() -> None:
    table = Table(concurrency=1, queue_buffer=0)
    leases = table.take(1)
    row = table.start()
    table.finish(row, done(row))
    table.settle()
    assert table.mark_lost(leases) == 0


def test_what_was_offered_to_the_store_is_not_lost_by_a_renewal() -> None:
    """The store refuses to renew a job that it has completed, though the answer is on its way or was lost."""
    table = Table(concurrency=1, queue_buffer=0)
    leases = table.take(1)
    row = table.start()
    table.finish(row, done(row))
    offered = table.unsent(1)
    assert table.mark_lost(leases) == 0
    table.keep(offered)
    assert table.mark_lost(leases) == 0
    assert table.settle() == offered


# ---- giving back


def test_jobs_not_started_are_given_back_in_their_order() -> None:
    table = Table(concurrency=1, queue_buffer=5)
    leases = table.take(5)
    table.start()
    table.start_no_more()
    released = table.settle()
    assert [(outcome.verdict, outcome.lease) for outcome in released] == [(Verdict.RELEASE, one) for one in leases[1:]]
    assert table.begin() is None


def test_what_comes_in_after_the_end_is_given_back_too() -> None:
    """A lease call may be under way when the stop is asked for."""
    table = Table(concurrency=4)
    table.start_no_more()
    leases = some(2, crashes=3)
    assert table.take_in(leases) == 0
    assert [(outcome.verdict, outcome.lease) for outcome in table.settle()] == [
        (Verdict.RELEASE, lease) for lease in leases
    ]


def test_jobs_that_waited_for_a_whole_lease_are_given_back_and_none_is_hoarded() -> None:
    table = Table(concurrency=1, queue_buffer=3)
    table.take(4)
    row = table.start()
    now = time.monotonic()
    assert table.release_overdue(now + 29.0, 30.0) == 0
    assert table.release_overdue(now + 30.1, 30.0) == 3
    table.settle()
    assert table.free_capacity() == 0
    assert table.release_overdue(now + 100.0, 30.0) == 0
    table.finish(row, done(row))
    table.settle()
    assert table.free_capacity() == 4


# ---- deadlines


def test_the_first_deadline_before_the_next_check_wakes_once() -> None:
    table = Table(concurrency=9, queue_buffer=0)
    assert table.watch(time.monotonic() + 10.0, 1.0) > 0.0
    table.take(3, timeout=60.0)
    for _ in range(3):
        table.start()
    assert table.wake_ups == 0
    table.take(3, timeout=5.0)
    for _ in range(3):
        table.start()
    assert table.wake_ups == 1


def test_many_short_jobs_wake_once_although_each_is_gone_at_the_next_check() -> None:
    table = Table(concurrency=1, queue_buffer=0)
    table.watch(time.monotonic() + 10.0, 1.0)
    for _ in range(50):
        table.take(1, timeout=5.0)
        row = table.start()
        table.finish(row, done(row))
        table.settle()
        until = table.watch(time.monotonic() + 10.0, 1.0)
        assert until - time.monotonic() <= 5.0
    assert table.wake_ups == 1


def test_the_next_look_is_at_the_nearest_deadline_or_giving_up() -> None:
    table = Table(concurrency=3, queue_buffer=0)
    soon = time.monotonic() + 100.0
    assert table.watch(soon, 2.0) == soon
    table.take(1, timeout=50.0)
    late = table.start()
    assert late.context is not None
    assert table.watch(soon, 2.0) == late.context.ends
    late.context.cancel("timeout")  # before its deadline: the grace counts from the later of the two
    assert table.watch(soon, 2.0) == late.context.ends  # still rung for
    table._watched_until = 0.0
    assert table.watch(soon, 2.0) == late.context.ends + 2.0


def test_a_row_that_is_not_cancelled_is_never_given_up() -> None:
    table = Table(concurrency=3, queue_buffer=0)
    table.take(1, timeout=0.001)
    row = table.start()
    assert row.gives_up_at(1.0) == math.inf
    assert row.context is not None
    row.context.cancel("timeout")
    assert row.deadline == math.inf
    cancelled = row.context.cancelled_at
    assert cancelled is not None
    assert row.gives_up_at(1.0) == pytest.approx(max(cancelled, row.context.ends) + 1.0)


@pytest.mark.parametrize("reason", ["lease lost", "stopping"])
def test_a_handler_cancelled_for_another_reason_has_until_its_deadline(reason: str) -> None:
    table = Table(concurrency=3, queue_buffer=0)
    table.take(1, timeout=50.0)
    row = table.start()
    assert row.context is not None
    row.context.cancel(reason)  # type: ignore[arg-type]  # one of the two
    assert row.gives_up_at(1.0) == row.context.ends + 1.0


# ---- all at once


def test_under_many_threads_every_job_is_run_and_recorded_once_and_no_bound_is_passed() -> None:
    table = Table(concurrency=4, queue_buffer=2, max_in_flight=10)
    total, ran, recorded = 3_000, list[str](), list[str]()
    problems: list[str] = []
    threads: list[threading.Thread] = []

    def shift() -> None:
        row = table.begin()
        while row is not None:
            ran.append(row.lease.job.id)
            row = table.finish(row, done(row))

    def guarded(call: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                call()
            except BaseException as error:
                problems.append(repr(error))

        return run

    left, failing = total, True
    end = time.monotonic() + SOON
    while len(recorded) < total and not problems and time.monotonic() < end:
        outcomes = table.unsent(3)
        failing = not failing
        if failing:
            table.keep(outcomes)
        else:
            table.forget(outcome.lease for outcome in outcomes)
            recorded.extend(outcome.lease.job.id for outcome in outcomes)
        room = min(table.free_capacity(), left)
        if room:
            left -= room
            for _ in range(table.take_in(some(room))):
                thread = threading.Thread(target=guarded(shift))
                thread.start()
                threads.append(thread)
        if table.held > 10 or table.unfinished > 10:
            problems.append("a bound was passed")
    for thread in threads:
        thread.join(SOON)
    assert not problems
    assert len(recorded) == len(set(recorded)) == len(ran) == len(set(ran)) == total
    assert (table.held, table.unfinished, table._active_threads) == (0, 0, 0)
