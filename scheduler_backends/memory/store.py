"""State that all calls of one memory backend share: lock, clock, queues and waiters."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from scheduler.clock import Clock
from scheduler.critical import StoreLock
from scheduler.errors import BackendClosed
from scheduler.leases import Lease, Settled
from scheduler.limits import now_of
from scheduler.logs import GuardedLogger
from scheduler.processes import PerProcess, process, suspend_at_forks
from scheduler.queues import Retention
from scheduler.states import TERMINAL
from scheduler.topology import QueueTopology, QueueVersion, VersionState
from scheduler_backends.memory.queue import MemoryQueue
from scheduler_backends.memory.stored_job import StoredJob
from scheduler_backends.memory.waiter import MemoryWaiter

T = TypeVar("T")
R = TypeVar("R")

_log = GuardedLogger(logging.getLogger(__name__))
_FORK_TIMEOUT = 5.0  # seconds that a fork waits for a call in progress in another thread
SLICE = 1_000  # jobs to move or read while the lock is held once: some milliseconds
_MANY = 100  # number of queues at which empty ones are removed: names may come from requests, without limit
_BACKWARD_JUMP = timedelta(seconds=1)  # leases and retries are adjusted if the clock goes back by more


class Store:
    """
    State of one backend.

    `lock` guards everything except the waiters. No user code runs under it except the clock. A call takes the lock and
    gets the time from `look`. A call that changes something gets it from `begin` instead, and calls `end` after its
    last change. If a call never reached its `end`, the next one rebuilds the queues first.
    """

    def __init__(self, *, version: int, partitions: int, retention: Retention, clock: Clock | None) -> None:
        self._locks: PerProcess[StoreLock] = PerProcess()
        self.clock = clock
        self.queues: dict[str, MemoryQueue] = {}
        self.waiters: set[MemoryWaiter] = set()
        self._first_versions = (QueueVersion(version=version, partitions=partitions, state=VersionState.ACTIVE),)
        self._kept = {state: retention.seconds(state) for state in TERMINAL}
        self._closed = self._changing = False
        self._process = process()  # the process that made the jobs, or was warned that they are copies
        self._turn = 0
        self._many = _MANY
        self._latest = datetime.min.replace(tzinfo=UTC)
        self._to_notify: set[str] = set()  # queues whose waiters `end` notifies
        suspend_at_forks(self)

    def suspend(self, resumes: list[Callable[[], None]]) -> None:
        """
        Hold the lock during a fork, so that the child gets no half-done move. See `Suspendable`.

        A fork in C does not call this, and a signal handler may fork inside a call of this thread. The child still has
        its own lock, and its next call repairs the half-done move, as after any call that was interrupted.
        """
        self._locks.get(StoreLock).acquire_once(_FORK_TIMEOUT, resumes)

    # ---- Calls, one after another

    @property
    def lock(self) -> Any:
        """Lock for a `with` statement around a call. Raises `BackendUnavailable` inside another call of this thread."""
        return self._locks.get(StoreLock).entry()

    def look(self) -> datetime:
        """Return the current time, for a call that only reads. Raises `BackendClosed`."""
        if self._closed:
            raise BackendClosed("the backend was closed")
        if self._changing:
            for queue in self.queues.values():
                queue.rebuild()
            self.end()
        now = now_of(self.clock)
        if now < self._latest and self._latest - now > _BACKWARD_JUMP:
            self._changing = True
            for queue in self.queues.values():
                queue.limit_deadlines(now)
            self.end()
        self._latest = now
        return now

    def begin(self) -> datetime:
        """Return the current time, for a call that changes something. Raises `BackendClosed`."""
        now = self.look()
        self._changing = True
        return now

    def end(self) -> None:
        """Mark the change as complete and notify waiters, once for all jobs."""
        if self._to_notify:
            for waiter in self.waiters.copy():
                if not waiter.queues.isdisjoint(self._to_notify):
                    waiter.notify()
            self._to_notify.clear()
        self._changing = False

    def in_slices(self, items: Sequence[T], act: Callable[[T, datetime], R]) -> list[R]:
        """
        Call *act* with each item and the current time, and return its results.

        The lock is released between slices, so that a heartbeat does not wait for a huge batch.
        """
        results: list[R] = []
        for start in range(0, len(items) or 1, SLICE):
            if start:
                time.sleep(0)  # lets a waiting thread take the lock; otherwise this one would take it again at once
            with self.lock:
                now = self.begin()
                results += [act(item, now) for item in items[start : start + SLICE]]
                self.end()
        return results

    def in_portions(self, limit: int, act: Callable[[int, datetime], int]) -> int:
        """
        Act on up to *limit* jobs, in slices as above, and return how many.

        *act* is called with a limit and the current time, selects the jobs itself, and returns how many they were.
        """
        total = 0
        while True:
            most = min(limit - total, SLICE)
            with self.lock:
                found = act(most, self.begin())
                self.end()
            total += found
            if found < most or total == limit:
                return total
            time.sleep(0)  # as above

    def settle_each(
        self, items: Sequence[Settled], move: Callable[[MemoryQueue, StoredJob, Settled, datetime], None]
    ) -> list[Lease]:
        """Call *move* for each item whose lease holds its job now, and return the other leases."""

        def settle(item: Settled, now: datetime) -> Lease | None:
            lease = item if isinstance(item, Lease) else item.lease
            queue = self.queues.get(lease.job.queue)
            held = None if queue is None else queue.held.get(lease.token)
            stored = None if held is None else held.get(lease.job.id)
            if queue is None or stored is None:
                return lease
            move(queue, stored, item, now)
            return None

        return [lease for lease in self.in_slices(items, settle) if lease is not None]

    # ---- Queues

    def queue(self, name: str) -> MemoryQueue:
        """Return the queue *name*. It is made if it does not exist."""
        queue = self.queues.get(name)
        if queue is None:
            if len(self.queues) >= self._many:  # remove those that are as if never used
                self.queues = {
                    other: used
                    for other, used in self.queues.items()
                    if used.jobs or used.paused or used.topology.epoch > 1
                }
                self._many = max(_MANY, 2 * len(self.queues))
            queue = self.queues[name] = self.peek(name)
        return queue

    def peek(self, name: str) -> MemoryQueue:
        """Return the queue *name*, or an empty one, which is not stored, if it does not exist."""
        queue = self.queues.get(name)
        if queue is None:
            topology = QueueTopology(queue=name, epoch=1, versions=self._first_versions)
            queue = MemoryQueue(topology, self._kept, self._to_notify)
        return queue

    def in_turn(self, method: str, names: Sequence[str]) -> list[MemoryQueue]:
        """Return the existing queues among *names*, least recently served by *method* first."""
        known = [self.queues[name] for name in names if name in self.queues]
        if len(known) > 1:
            known.sort(key=lambda queue: queue.turns.get(method, 0))
        return known

    def had_turn(self, method: str, queue: MemoryQueue) -> None:
        """Record that *method* has served *queue*, so that the other queues come first now."""
        self._turn += 1
        queue.turns[method] = self._turn

    # ---- Closing and forking

    def close(self) -> None:
        """Delete all jobs and end every wait."""
        self._closed = True
        self.queues.clear()
        for waiter in self.waiters.copy():
            waiter.fail()

    def warn_of_copy(self) -> None:
        """
        Log once, in a forked child, that its jobs are copies.

        Must not be called under the lock, since log handlers are user code.
        """
        if self._process != (here := process()):
            self._process = here
            _log.warning(
                "this process was forked from one with a memory backend and has a copy of it: jobs enqueued here exist "
                "only here, and jobs copied from the parent may run in both"
            )
