"""What all calls of one memory backend share: the lock, the clock, the queues, the waiters."""

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
_FORK_TIMEOUT = 5.0  # seconds that a fork waits for a call under way in another thread
SLICE = 1_000  # jobs that are moved or read under one hold of the lock: some milliseconds
_MANY = 100  # queues from which on those that are empty are forgotten: names may be made from requests, without end
_BACKWARD_JUMP = timedelta(seconds=1)  # that the clock may go back before leases and retries are adjusted


class Store:
    """
    The state of one backend.

    `lock` guards all of it but the waiters, and no code of a user's runs under it except the clock. A call takes the
    lock and gets the time from `look`; one that changes something gets it from `begin`, and calls `end` when it has
    done all. A call that finds that another one never reached its `end` rebuilds the queues first.
    """

    def __init__(self, *, version: int, partitions: int, retention: Retention, clock: Clock | None) -> None:
        self._locks: PerProcess[StoreLock] = PerProcess()
        self.clock = clock
        self.queues: dict[str, MemoryQueue] = {}
        self.waiters: set[MemoryWaiter] = set()
        self._first_versions = (QueueVersion(version=version, partitions=partitions, state=VersionState.ACTIVE),)
        self._kept = {state: retention.seconds(state) for state in TERMINAL}
        self._closed = self._changing = False
        self._process = process()  # where the jobs are no copy of a parent's
        self._turn = 0
        self._many = _MANY
        self._latest = datetime.min.replace(tzinfo=UTC)
        self._to_notify: set[str] = set()  # queues whose waiters `end` notifies
        suspend_at_forks(self)

    def suspend(self, resumes: list[Callable[[], None]]) -> None:
        """
        Hold the lock, so that a forked child gets no half-done move. See `Suspendable`.

        Without Python's hooks this does not run. The child has a lock of its own all the same, and its next call
        repairs a half-done move, as that of any call that was interrupted. So it does where a signal handler forks
        inside a call of this very thread.
        """
        self._locks.get(StoreLock).acquire_once(_FORK_TIMEOUT, resumes)

    # ---- Calls, one after another

    @property
    def lock(self) -> Any:
        """For a `with` statement around a call. Raises `BackendUnavailable` inside another call of this thread."""
        return self._locks.get(StoreLock).entry()

    def look(self) -> datetime:
        """Return the present moment, for a call that only reads. Raises `BackendClosed`."""
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
        """Return the present moment, for a call that changes something. Raises `BackendClosed`."""
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
        Call *act* with each item and the present moment, and return what it returns.

        The lock is released between slices, so that a heartbeat does not wait for a huge batch.
        """
        results: list[R] = []
        for start in range(0, len(items) or 1, SLICE):
            if start:
                time.sleep(0)  # let a waiting thread take the lock; this one would take it again at once
            with self.lock:
                now = self.begin()
                results += [act(item, now) for item in items[start : start + SLICE]]
                self.end()
        return results

    def in_portions(self, limit: int, act: Callable[[int, datetime], int]) -> int:
        """As `in_slices`, for up to *limit* jobs that *act* finds itself. It takes a limit and returns a number."""
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
        """The queue, made if it was never used."""
        queue = self.queues.get(name)
        if queue is None:
            if len(self.queues) >= self._many:  # forget those that are as if never used
                self.queues = {
                    other: used
                    for other, used in self.queues.items()
                    if used.jobs or used.paused or used.topology.epoch > 1
                }
                self._many = max(_MANY, 2 * len(self.queues))
            queue = self.queues[name] = self.peek(name)
        return queue

    def peek(self, name: str) -> MemoryQueue:
        """The queue as it is, or as it would be made. Asking makes none."""
        queue = self.queues.get(name)
        if queue is None:
            topology = QueueTopology(queue=name, epoch=1, versions=self._first_versions)
            queue = MemoryQueue(topology, self._kept, self._to_notify)
        return queue

    def in_turn(self, method: str, names: Sequence[str]) -> list[MemoryQueue]:
        """Those that were ever used, first the one whose last turn in *method* is longest ago."""
        known = [self.queues[name] for name in names if name in self.queues]
        if len(known) > 1:
            known.sort(key=lambda queue: queue.turns.get(method, 0))
        return known

    def had_turn(self, method: str, queue: MemoryQueue) -> None:
        """Let the other queues come before *queue* from now on."""
        self._turn += 1
        queue.turns[method] = self._turn

    # ---- Closing and forking

    def close(self) -> None:
        """Forget everything and end every wait."""
        self._closed = True
        self.queues.clear()
        for waiter in self.waiters.copy():
            waiter.fail()

    def warn_of_copy(self) -> None:
        """Log once, in a forked child, that its jobs are its own. Without the lock: log handlers are a user's."""
        if self._process != (here := process()):
            self._process = here
            _log.warning(
                "this process was forked off one with a memory backend and has a copy of it: jobs enqueued here are "
                "seen here only, and jobs copied from the parent may run in both"
            )
