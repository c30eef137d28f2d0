"""The cost of a job does not grow with the backlog, and nothing is left over."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

import scheduler_backends.memory
from memory.inside import check_inside, kept_alive
from memory.moves import QUEUE, add, bury, complete, lease, new, retry
from scheduler.jobs import Priority
from scheduler.queues import Retention
from scheduler.states import JobState
from scheduler.testing import ManualClock
from scheduler_backends.memory import MemoryBackend

_PACKAGE = str(Path(scheduler_backends.memory.__file__).parent)
_KEEP = Retention(succeeded=1e6, cancelled=1e6, dead=1e6)
_SMALL, _LARGE = 100, 10_000
_BATCH = 10


def _with_backlog(size: int) -> MemoryBackend:
    """*size* jobs in every state, leased ones in calls of ten."""
    backend = MemoryBackend(partitions=4, retention=_KEEP, clock=ManualClock())
    for finish in (complete, bury, lambda backend, leases: retry(backend, leases, 1e5)):
        add(backend, size)
        while held := lease(backend, size):
            finish(backend, held)
    cancelled = add(backend, size)
    backend.cancel(QUEUE, [each.job.id for each in cancelled])
    add(backend, size)
    for _ in range(size // 10):
        lease(backend, 10, duration=1e5)
    add(backend, size, delay=1e5)
    # Low, so that the job of the move is leased first.
    add(backend, size, priority=Priority.LOW)
    return backend


@pytest.fixture(scope="module")
def backlogs() -> tuple[MemoryBackend, MemoryBackend]:
    return _with_backlog(_SMALL), _with_backlog(_LARGE)


# Each does one move, or a few, of about a batch, and leaves the backlog as large as it was.


def _lease_and_complete(backend: MemoryBackend) -> None:
    add(backend, _BATCH)
    complete(backend, lease(backend, _BATCH))
    backend.purge(QUEUE, JobState.SUCCEEDED, _BATCH)


def _lease_and_release(backend: MemoryBackend) -> None:
    backend.release(lease(backend, _BATCH))


def _renew(backend: MemoryBackend) -> None:
    leases = lease(backend, _BATCH)
    backend.renew(leases, 10.0)
    backend.release(leases)


def _schedule_and_cancel(backend: MemoryBackend) -> None:
    ids = [each.job.id for each in add(backend, _BATCH, delay=5e4)]
    backend.cancel(QUEUE, ids)
    backend.purge(QUEUE, JobState.CANCELLED, _BATCH)


def _cancel_ready(backend: MemoryBackend) -> None:
    backend.cancel(QUEUE, [each.job.id for each in add(backend, _BATCH)])
    backend.purge(QUEUE, JobState.CANCELLED, _BATCH)


def _retry_and_promote(backend: MemoryBackend) -> None:
    add(backend, _BATCH)
    retry(backend, lease(backend, _BATCH), 1.0)
    backend.clock.advance(1.0)
    assert backend.promote_due([QUEUE], 1_000).moved == _BATCH
    complete(backend, lease(backend, _BATCH))
    backend.purge(QUEUE, JobState.SUCCEEDED, _BATCH)


def _recover(backend: MemoryBackend) -> None:
    add(backend, _BATCH)
    held = lease(backend, _BATCH, duration=1.0)
    backend.clock.advance(1.0)
    recovery = backend.recover_expired([QUEUE], 1_000)
    assert recovery.ready + recovery.dead == _BATCH
    backend.cancel(QUEUE, [each.job.id for each in held])
    backend.purge(QUEUE, JobState.CANCELLED, _BATCH)


def _bury_and_requeue(backend: MemoryBackend) -> None:
    leases = lease(backend, _BATCH)
    bury(backend, leases)
    backend.requeue(QUEUE, [each.job.id for each in leases])


def _stats(backend: MemoryBackend) -> None:
    backend.stats()


def _idle_calls(backend: MemoryBackend) -> None:
    backend.promote_due([QUEUE], 100)
    backend.recover_expired([QUEUE], 100)
    backend.trim([QUEUE], 100)


def _second_page(backend: MemoryBackend) -> None:
    for state in JobState:
        page = backend.list(QUEUE, state, limit=_BATCH)
        backend.list(QUEUE, state, cursor=page.cursor, limit=_BATCH)


_MOVES = [
    _lease_and_complete,
    _lease_and_release,
    _renew,
    _schedule_and_cancel,
    _cancel_ready,
    _retry_and_promote,
    _recover,
    _bury_and_requeue,
    _stats,
    _idle_calls,
    _second_page,
]


def _lines(move: Callable[[MemoryBackend], None], backend: MemoryBackend) -> int:
    """How many lines of the package a move runs."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Callable[..., object] | None:
        nonlocal count
        if not frame.f_code.co_filename.startswith(_PACKAGE):
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        move(backend)
    finally:
        sys.settrace(before)
    return count


def _seconds(move: Callable[[MemoryBackend], None], backend: MemoryBackend) -> float:
    """Of this thread's own processor time, the best of a few."""

    def once() -> float:
        started = time.thread_time()
        move(backend)
        return time.thread_time() - started

    return min(once() for _ in range(10))


@pytest.mark.parametrize("move", _MOVES)
def test_a_move_takes_as_many_steps_with_a_hundred_times_the_backlog(
    move: Callable[[MemoryBackend], None], backlogs: tuple[MemoryBackend, MemoryBackend]
) -> None:
    small, large = backlogs
    move(small)  # the first one may remove what filling left behind
    move(large)
    assert _lines(move, large) <= 2 * _lines(move, small) + 100
    # What one line hides, such as a copy or a sorting of all jobs, would take a hundred times as long.
    assert _seconds(move, large) <= 10 * _seconds(move, small)


def test_promoting_recovering_and_purging_a_backlog_costs_each_job_the_same() -> None:
    def steps(size: int) -> float:
        backend = MemoryBackend(clock=ManualClock())
        add(backend, size, delay=1.0)
        backend.clock.advance(1.0)

        def run(backend: MemoryBackend) -> None:
            while backend.promote_due([QUEUE], 100).moved:
                pass
            while lease(backend, 10, duration=1.0):
                pass
            backend.clock.advance(1.0)
            while backend.recover_expired([QUEUE], 100).ready:
                pass
            while backend.purge(QUEUE, JobState.READY, 100):
                pass

        return _lines(run, backend) / size

    assert steps(4_000) <= 1.2 * steps(400)


def test_jobs_cancelled_and_enqueued_for_ever_leave_nothing_behind() -> None:
    backend = MemoryBackend(clock=ManualClock())
    long_ahead = add(backend, 10, delay=1e6)
    before = kept_alive()
    for turn in range(2_000):
        ids = [each.job.id for each in backend.enqueue([new(), new(delay=10.0 + turn)])]
        assert all(result.moved for result in backend.cancel(QUEUE, ids))
    assert kept_alive() - before <= 200
    check_inside(backend)
    assert sorted(job.id for job in backend.list(QUEUE, JobState.SCHEDULED).jobs) == sorted(
        each.job.id for each in long_ahead
    )


def test_the_same_id_cancelled_and_enqueued_for_ever_is_leased_once() -> None:
    backend = MemoryBackend(clock=ManualClock())
    for turn in range(500):
        backend.enqueue([new(id="same", delay=turn % 3)])
        assert backend.cancel(QUEUE, ["same"])[0].moved
    backend.enqueue([new(id="same")])
    backend.clock.advance(1_000.0)
    assert backend.promote_due([QUEUE], 10).moved == 0
    assert [each.job.id for each in lease(backend, 10)] == ["same"]


@pytest.mark.parametrize("durations", [[30.0], [60.0, 1.0], [2_000.0 - number for number in range(1_000)]])
def test_a_lease_renewed_for_ever_leaves_nothing_behind(durations: list[float]) -> None:
    backend = MemoryBackend(clock=ManualClock())
    add(backend)
    leases = lease(backend)
    before = kept_alive()
    for turn in range(3_000):
        assert not backend.renew(leases, durations[turn % len(durations)]).refused
        backend.clock.advance(0.01)
        if turn % 10 == 0:
            assert backend.recover_expired([QUEUE], 10).ready == 0
    assert kept_alive() - before <= 200
    check_inside(backend)
    assert not complete(backend, leases)


def test_lease_calls_that_come_and_go_beside_a_long_one_leave_nothing_behind() -> None:
    backend = MemoryBackend(clock=ManualClock())
    add(backend)
    held = lease(backend, duration=1e6)
    before = kept_alive()
    for _ in range(2_000):
        add(backend)
        complete(backend, lease(backend))
    assert kept_alive() - before <= 200
    check_inside(backend)
    assert not complete(backend, held)


def test_dead_jobs_requeued_and_buried_for_ever_leave_nothing_behind() -> None:
    backend = MemoryBackend(retention=_KEEP, clock=ManualClock())
    job_id = add(backend)[0].job.id
    before = kept_alive()
    for _ in range(1_000):
        bury(backend, lease(backend))
        assert backend.requeue(QUEUE, [job_id])[0].moved
    assert kept_alive() - before <= 200
    check_inside(backend)


def test_a_huge_batch_releases_the_lock_in_between() -> None:
    """So no heartbeat waits longer than a slice takes. Each slice asks the clock once."""

    class Counting(ManualClock):
        calls = 0

        def now(self):
            self.calls += 1
            return super().now()

    clock = Counting()
    backend = MemoryBackend(clock=clock)
    add(backend, 2_500)
    assert clock.calls == 3
    held = [each for _ in range(3) for each in lease(backend, 2_500)]
    ids = [each.job.id for each in held]
    assert len(ids) == 2_500
    clock.calls = 0
    assert not backend.release(held)
    assert not backend.renew([], 1.0).refused
    assert clock.calls == 3 + 1
    again = [each.job.id for _ in range(3) for each in lease(backend, 2_500)]
    assert again == ids, "first in line, in the order given"


def test_a_call_with_a_large_limit_releases_the_lock_in_between() -> None:
    class Counting(ManualClock):
        calls = 0

        def now(self):
            self.calls += 1
            return super().now()

    clock = Counting()
    backend = MemoryBackend(clock=clock, retention=Retention(succeeded=1.0, dead=1.0, cancelled=1.0))

    def slices_of(call) -> int:
        clock.calls = 0
        call()
        return clock.calls

    ids = [each.job.id for each in add(backend, 2_500, delay=5.0)]
    assert slices_of(lambda: backend.get(QUEUE, ids)) == 3
    assert slices_of(lambda: backend.list(QUEUE, JobState.SCHEDULED, limit=2_500)) == 3
    assert len(backend.list(QUEUE, JobState.SCHEDULED, limit=2_500).jobs) == 2_500
    clock.advance(6.0)
    assert slices_of(lambda: backend.promote_due([QUEUE], 10_000)) == 3
    for _ in range(3):
        lease(backend, 1_000, duration=1.0)
    clock.advance(2.0)
    assert slices_of(lambda: backend.recover_expired([QUEUE], 10_000)) == 3
    backend.cancel(QUEUE, ids[:1_500])
    clock.advance(2.0)
    assert slices_of(lambda: backend.trim([QUEUE], 10_000)) == 2
    assert slices_of(lambda: backend.purge(QUEUE, JobState.READY, 10_000)) == 2
    assert not any(backend.stats([QUEUE])[0].counts.values())


def test_a_cancelled_job_does_not_stay_in_memory() -> None:
    """A heap keeps its entry for a while, which must not hold the job: its payload may be large."""
    backend = MemoryBackend(clock=ManualClock())
    before = kept_alive()
    ids = [each.job.id for each in add(backend, 50, delay=5.0, payload=bytes(1_000))]
    assert kept_alive() == before + 50
    backend.cancel(QUEUE, ids)
    assert kept_alive() == before


def test_a_queue_that_is_only_asked_about_is_not_remembered() -> None:
    backend = MemoryBackend()
    for number in range(100):
        name = f"unknown {number}"
        lease(backend, queues=[name])
        backend.promote_due([name], 1)
        backend.recover_expired([name], 1)
        backend.trim([name], 1)
        backend.get(name, ["x"])
        backend.list(name, JobState.READY)
        backend.cancel(name, ["x"])
        backend.purge(name, JobState.READY, 1)
        backend.resume(name)
        backend.topology(name)
        assert len(backend.stats([name])) == 1
    assert backend.stats() == []
