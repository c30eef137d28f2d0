"""What all calls on one memory backend share: the lock, the clock, the queues, the bells."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from scheduler.clock import Clock, SystemClock
from scheduler.errors import BackendClosed, ConfigError
from scheduler.leases import Lease
from scheduler.limits import check_moment
from scheduler.locks import StoreLock
from scheduler.logs import GuardedLogger
from scheduler.processes import PerProcess, process
from scheduler.queues import Retention
from scheduler_backends.memory import forks
from scheduler_backends.memory.groups import LeaseBatch
from scheduler_backends.memory.queues import MemoryQueue
from scheduler_backends.memory.stored_job import StoredJob
from scheduler_backends.memory.wakeups import WaiterRegistry

_log = GuardedLogger(logging.getLogger(__name__))
_SYSTEM_CLOCK = SystemClock()
SLICE = 1_000  # jobs that are moved or read under one hold of the lock: some milliseconds
_MANY = 100  # queues from which on those that are empty are forgotten: names may be made from requests, without end
_BACKWARD_JUMP = timedelta(seconds=1)  # that the clock may go back before leases and retries are looked through


class Held(NamedTuple):
    """A job, its queue, and the lease call that holds it."""

    queue: MemoryQueue
    row: StoredJob
    group: LeaseBatch


class Store:
    """
    The state behind one backend.

    `lock` guards all of it but the bells, and nothing of a user's runs under it but the clock. A call takes the lock
    and asks `look` for the time; one that changes something asks `begin` instead, and says `end` when it is done.
    """

    def __init__(self, *, version: int, partitions: int, retention: Retention, clock: Clock | None) -> None:
        self._locks: PerProcess[StoreLock] = PerProcess()
        self.clock = clock
        self.queues: dict[str, MemoryQueue] = {}
        self.waiters = WaiterRegistry()
        self._version = version
        self._partitions = partitions
        self._retention = retention
        self._closed = self._changing = False
        self._told = process()  # in which nobody need be told that it has a copy
        self._turn = 0
        self._many = _MANY
        self._latest = datetime.min.replace(tzinfo=UTC)
        self._stirred: set[str] = set()
        forks.watch(self)

    # One call after another.

    @property
    def store_lock(self) -> StoreLock:
        """The lock, of this process's own."""
        return self._locks.get(StoreLock)

    @property
    def lock(self) -> Any:
        """For a `with` statement around a call. Raises `BackendUnavailable` inside another call of this thread."""
        return self.store_lock.entry()

    def look(self) -> datetime:
        """The present moment, for a call that only reads. Raises `BackendClosed`."""
        if self._closed:
            raise BackendClosed("the backend was closed")
        if self._changing:
            self._finish_what_was_cut_short()
        now = (self.clock or _SYSTEM_CLOCK).now()
        if type(now) is not datetime or now.tzinfo is not UTC:
            now = check_moment("clock", now, ConfigError)
        if now < self._latest and self._latest - now > _BACKWARD_JUMP:
            self._changing = True
            for queue in self.queues.values():
                queue.clock_went_back(now)
            self.end()
        self._latest = now
        return now

    def begin(self) -> datetime:
        """The present moment, for a call that changes something. Raises `BackendClosed`."""
        now = self.look()
        self._changing = True
        return now

    def end(self) -> None:
        """All is in its place. Waiters hear of it now, not for every job."""
        self._changing = False
        if self._stirred:
            self.waiters.notify(self._stirred)
            self._stirred.clear()

    def _finish_what_was_cut_short(self) -> None:
        for queue in self.queues.values():
            queue.rebuild()
            self.stir(queue.name)
        self.end()

    def stir(self, queue: str) -> None:
        """The waiters of *queue* have reason to look."""
        self._stirred.add(queue)

    # Queues.

    def queue(self, name: str) -> MemoryQueue:
        """The queue, made if it was never used."""
        queue = self.queues.get(name)
        if queue is None:
            if len(self.queues) >= self._many:
                self._forget_unused()
            queue = self.queues[name] = self.seen(name)
        return queue

    def _forget_unused(self) -> None:
        """Forget the queues that are as if they had never been used; the next time is when there are twice as many."""
        self.queues = {name: queue for name, queue in self.queues.items() if not self._is_unused(queue)}
        self._many = max(_MANY, 2 * len(self.queues))

    def _is_unused(self, queue: MemoryQueue) -> bool:
        active = queue.active
        as_made = queue.epoch == 1 and (active.number, active.partitions) == (self._version, self._partitions)
        return as_made and len(queue.versions) == 1 and not queue.jobs and not queue.paused

    def seen(self, name: str) -> MemoryQueue:
        """The queue as it is, or as it would be made; asking makes none."""
        return self.queues.get(name) or MemoryQueue(name, self._version, self._partitions, self._retention, self.stir)

    def in_turn(self, method: str, names: Sequence[str]) -> list[MemoryQueue]:
        """Those that were ever used, the one first whose last turn in *method* is longest ago."""
        known = [self.queues[name] for name in names if name in self.queues]
        if len(known) > 1:
            known.sort(key=lambda queue: queue.turns.get(method, 0))
        return known

    def had_turn(self, method: str, queue: MemoryQueue) -> None:
        """*queue* was served: others come first now."""
        self._turn += 1
        queue.turns[method] = self._turn

    def held(self, lease: Lease) -> Held | None:
        """What *lease* gives a right to now, None where that is nothing any more."""
        queue = self.queues.get(lease.job.queue)
        row = None if queue is None else queue.jobs.get(lease.job.id)
        if queue is None or row is None or row.group is None or row.group.token != lease.token:
            return None
        return Held(queue, row, row.group)

    # Its end, and its copies.

    def close(self) -> None:
        """Forget everything and end every wait."""
        self._closed = True
        self.queues.clear()
        self.waiters.close()

    def warn_of_copy(self) -> None:
        """Say once, in a forked child, that its jobs are its own. Without the lock: log handlers are a user's."""
        if self._told != (here := process()):
            self._told = here
            _log.warning(
                "this process was forked off one with a memory backend and has a copy of it: jobs enqueued here are "
                "seen here only, and jobs copied from the parent may run in both"
            )
