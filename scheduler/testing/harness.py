"""Drives a backend in the tests of the conformance suite: fresh queues, a clock, and short forms of the calls."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self

from scheduler.backend import Backend
from scheduler.clock import Clock
from scheduler.identity import new_token
from scheduler.jobs import Job, NewJob
from scheduler.leases import Enqueued, Lease, Promotion
from scheduler.queues import Retention
from scheduler.testing.clock import ManualClock
from scheduler.testing.reading import TURNS, Reading

KEEP = Retention(succeeded=86_400.0, cancelled=86_400.0, dead=86_400.0)
"""The default retention of the suite. Finished jobs are kept, so that tests can read them."""

LONG = 3_600.0
"""Seconds of a delay or a lease that never ends during a test."""


class OpenBackend(Protocol):
    """A callable that opens a backend; the test file of a backend provides it."""

    def __call__(self, *, clock: Clock | None, retention: Retention) -> Backend:
        """Open a backend with these settings. A store that uses the clock of its server may ignore *clock*."""
        ...


class BackendHarness(Reading):
    """
    A backend under test, with queues of its own and short forms of the calls.

    Attributes:
        backend: The backend under test.
        queue: The queue that methods use if none is named.
        clock: The manual clock of the backend. None = the backend has no assignable `clock`, and time is real.
        span: Seconds for delays and leases that a test lets pass with `advance`: 10 on a manual clock, 1 in real time.
        queues: All queues made here, `queue` included.
        leases: All leases that were given out here, including those no longer held.
    """

    def __init__(self, open_backend: OpenBackend, *, retention: Retention = KEEP) -> None:
        self._open = open_backend
        self.retention = retention
        self._manual = ManualClock()
        self._opened: list[Backend] = []
        self.queues: list[str] = []
        self.leases: set[Lease] = set()
        self.backend = self.another()
        self.clock = self._manual if hasattr(self.backend, "clock") else None
        self.span = 10.0 if self.clock else 1.0
        self.queue = self.new_queue()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every backend that this harness opened."""
        while self._opened:
            self._opened.pop().close()

    def another(self) -> Backend:
        """Open another backend with the same settings and clock. If it is `in_process`, it has a store of its own."""
        backend = self._open(clock=self._manual, retention=self.retention)
        self._opened.append(backend)
        if hasattr(backend, "clock"):
            backend.clock = self._manual
        return backend

    def new_queue(self, name: str = "contract-{}") -> str:
        """Return the name of a new queue. The {} in *name* is replaced by a unique text."""
        queue = name.replace("{}", uuid.uuid4().hex[:12])
        self.queues.append(queue)
        return queue

    # Time

    def wait(self, seconds: float) -> None:
        """Let *seconds* pass without calling the backend."""
        if self.clock:
            self.clock.advance(seconds)
        else:
            # Such a store only looks at real time, so there is no event to wait for. The margin covers the difference
            # between this process's timer and the store's clock.
            time.sleep(seconds + 0.05)

    def advance(self, seconds: float) -> None:
        """Let *seconds* pass and promote all jobs that have become due."""
        self.wait(seconds)
        self.promote()

    def promote(self, *queues: str) -> Promotion:
        """Promote all due jobs of *queues* (none = all queues of this harness), in as many calls as it takes."""
        for _ in range(TURNS):
            promotion = self.backend.promote_due(queues or self.queues, 1_000)
            if promotion.next_due is None or promotion.next_due > 0.0:
                return promotion
        raise AssertionError("promote_due keeps reporting that more jobs are due")

    # Moves

    def new(self, **fields: object) -> NewJob:
        """Return a NewJob with *fields*, by default in this harness's queue."""
        return NewJob(**{"type": "contract", "queue": self.queue, **fields})  # type: ignore[arg-type]  # fields by name

    def enqueue(self, *jobs: NewJob) -> Sequence[Enqueued]:
        """Enqueue *jobs* in one call."""
        return self.backend.enqueue(jobs)

    def add(self, **fields: object) -> Job:
        """Enqueue one new job and return it as stored."""
        (enqueued,) = self.enqueue(self.new(**fields))
        assert enqueued.is_new, f"{enqueued.job.id} is new, but the result reports a duplicate"
        return enqueued.job

    def add_many(self, count: int, **fields: object) -> Sequence[Job]:
        """Enqueue *count* new jobs in one call and return them as stored."""
        return [enqueued.job for enqueued in self.enqueue(*(self.new(**fields) for _ in range(count)))]

    def lease_once(
        self,
        limit: int = 10,
        *,
        queues: Sequence[str] = (),
        token: str | None = None,
        worker_id: str = "contract",
        duration: float = LONG,
    ) -> Sequence[Lease]:
        """Promote due jobs, then make one lease call, which may return fewer than *limit*."""
        self.promote()
        leases = self.backend.lease(
            queues or (self.queue,), token=token or new_token(), worker_id=worker_id, duration=duration, limit=limit
        )
        self.leases.update(leases)
        return leases

    def lease(
        self, limit: int = 1_000, *, queues: Sequence[str] = (), worker_id: str = "contract", duration: float = LONG
    ) -> Sequence[Lease]:
        """Lease until *limit* jobs are held or a call returns none. Each call has a token of its own."""
        leases: list[Lease] = []
        while len(leases) < limit:
            more = self.lease_once(limit - len(leases), queues=queues, worker_id=worker_id, duration=duration)
            if not more:
                break
            leases.extend(more)
        return leases

    def lease_one(self, *, queue: str = "", worker_id: str = "contract", duration: float = LONG) -> Lease:
        """Lease exactly one job."""
        (lease,) = self.lease_once(1, queues=(queue,) if queue else (), worker_id=worker_id, duration=duration)
        return lease

    def leased(self, duration: float = LONG, /, **fields: object) -> Lease:
        """Enqueue one job and lease it. No other job of its queue may be ready."""
        job = self.add(**fields)
        lease = self.lease_one(queue=job.queue, duration=duration)
        assert lease.job.id == job.id
        return lease

    def recover(self, *queues: str) -> tuple[int, int]:
        """Recover all expired leases in as many calls as it takes. Return the numbers of jobs made ready, and dead."""
        ready = dead = 0
        for _ in range(TURNS):
            recovery = self.backend.recover_expired(queues or self.queues, 1_000)
            ready, dead = ready + recovery.ready, dead + recovery.dead
            if recovery.next_expiry is None or recovery.next_expiry > 0.0:
                return ready, dead
        raise AssertionError("recover_expired keeps reporting that more leases have expired")

    def trim(self, *queues: str) -> int:
        """Delete all jobs whose retention has ended, in as many calls as it takes. Return their number."""
        gone = 0
        for _ in range(TURNS):
            more = self.backend.trim(queues or self.queues, 1_000)
            gone += more
            if not more:
                return gone
        raise AssertionError("trim keeps deleting jobs")
