"""What all calls on one memory backend share: the lock, the clock, the queues, the bells."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from scheduler.clock import Clock
from scheduler.errors import BackendClosed, ConfigError
from scheduler.leases import Lease
from scheduler.limits import check_moment
from scheduler.queues import Retention
from scheduler_backends.memory import forks
from scheduler_backends.memory.groups import Group
from scheduler_backends.memory.queues import MemoryQueue
from scheduler_backends.memory.rows import Row
from scheduler_backends.memory.wakeups import Bells

_BACKWARD_JUMP = timedelta(seconds=1)  # that the clock may go back before the leases are looked through


class Held(NamedTuple):
    """A job, its queue, and the lease call that holds it."""

    queue: MemoryQueue
    row: Row
    group: Group


class Store:
    """
    The state behind one backend. Every call takes the lock, begins with `now()` and ends with `tell()`.

    `lock` guards all of it but `bells`. Nothing of a user's runs under it but the clock.
    """

    def __init__(self, *, version: int, partitions: int, retention: Retention, clock: Clock) -> None:
        self.lock = threading.Lock()
        self.clock = clock
        self.retention = retention
        self.queues: dict[str, MemoryQueue] = {}
        self.bells = Bells()
        self._version = version
        self._partitions = partitions
        self._closed = False
        self._turn = 0
        self._latest = datetime.min.replace(tzinfo=UTC)
        self._stirred: set[str] = set()
        forks.watch(self)

    def now(self) -> datetime:
        """The present moment. `BackendClosed` where that is past."""
        if self._closed:
            raise BackendClosed("the backend was closed")
        now = self.clock.now()
        if now.tzinfo is not UTC:
            now = check_moment("clock", now, ConfigError)
        if now < self._latest and self._latest - now > _BACKWARD_JUMP:
            for queue in self.queues.values():
                queue.leases.clock_went_back(now)
        self._latest = now
        return now

    def tell(self) -> None:
        """Ring for the queues that were stirred since the last time."""
        if self._stirred:
            self.bells.ring(self._stirred)
            self._stirred.clear()

    def stir(self, queue: str) -> None:
        """The waiters of *queue* have reason to look."""
        self._stirred.add(queue)

    def queue(self, name: str) -> MemoryQueue:
        """The queue, made if it was never used."""
        queue = self.queues.get(name)
        if queue is None:
            queue = self.queues[name] = self.seen(name)
        return queue

    def known(self, names: Sequence[str]) -> list[MemoryQueue]:
        """Those that were ever used, beginning with another one each time: who has little is not kept waiting."""
        self._turn += 1
        start = self._turn % len(names)
        return [self.queues[name] for name in (*names[start:], *names[:start]) if name in self.queues]

    def seen(self, name: str) -> MemoryQueue:
        """The queue as it is, or as it would be made; asking makes none."""
        return self.queues.get(name) or MemoryQueue(name, self._version, self._partitions, self.retention, self.stir)

    def held(self, lease: Lease) -> Held | None:
        """What *lease* gives a right to now, None where that is nothing any more."""
        queue = self.queues.get(lease.job.queue)
        row = None if queue is None else queue.jobs.get(lease.job.id)
        if queue is None or row is None or row.group is None or row.group.token != lease.token:
            return None
        return Held(queue, row, row.group)

    def close(self) -> None:
        """Forget everything and end every wait."""
        self._closed = True
        self.queues.clear()
        self.bells.close()

    def after_fork(self) -> None:
        """In the child: what it has from here on is a copy."""
        self.bells.after_fork()


def seconds_until(moments: Iterable[datetime | None], now: datetime) -> float | None:
    """Seconds to the first of the moments, 0 where it has come, None where there is none."""
    first = min((moment for moment in moments if moment is not None), default=None)
    return None if first is None else max(0.0, (first - now).total_seconds())
