"""What the conformance suite drives a backend by: fresh queues, a clock to advance, and short forms of the calls."""

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
"""What the suite opens a backend with unless a test says otherwise: every finished job can be looked at."""

LONG = 3_600.0
"""Seconds that no test waits for: a delay or a lease that stays."""


class OpenBackend(Protocol):
    """How a backend's own test file opens one."""

    def __call__(self, *, clock: Clock | None, retention: Retention) -> Backend:
        """A backend with these settings. A store on a server that cannot take a clock may ignore it."""
        ...


class BackendHarness(Reading):
    """
    One backend under test.

    span: "a while" in seconds, to be used for delays and leases that a test waits out by `advance`. It is long on a
    manual clock, and a second where the backend has no assignable `clock` and time is real.
    """

    def __init__(self, open_backend: OpenBackend, *, retention: Retention = KEEP) -> None:
        self._open = open_backend
        self.retention = retention
        self._manual = ManualClock()
        self._opened: list[Backend] = []
        self.queues: list[str] = []
        self.leases: set[Lease] = set()  # every one that was given out, whatever became of it
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
        """Close every backend that was opened here."""
        while self._opened:
            self._opened.pop().close()

    def another(self) -> Backend:
        """One more backend, opened the same way, with the same clock; on another store where it is `in_process`."""
        backend = self._open(clock=self._manual, retention=self.retention)
        self._opened.append(backend)
        if hasattr(backend, "clock"):
            backend.clock = self._manual
        return backend

    def new_queue(self, name: str = "contract-{}") -> str:
        """A queue that no store has seen; {} in *name* stands for what makes it unique."""
        queue = name.replace("{}", uuid.uuid4().hex[:12])
        self.queues.append(queue)
        return queue

    # Time

    def wait(self, seconds: float) -> None:
        """Let *seconds* pass, and do nothing."""
        if self.clock:
            self.clock.advance(seconds)
        else:
            # Real time is all that such a store looks at: there is no event to wait for. A little more, since timers
            # and the store's clock are not the same.
            time.sleep(seconds + 0.05)

    def advance(self, seconds: float) -> None:
        """Let *seconds* pass, and promote what has become due."""
        self.wait(seconds)
        self.promote()

    def promote(self, *queues: str) -> Promotion:
        """Promote all that is due in *queues* (none = all of this harness), in as many calls as it takes."""
        for _ in range(TURNS):
            promotion = self.backend.promote_due(queues or self.queues, 1_000)
            if promotion.next_due is None or promotion.next_due > 0.0:
                return promotion
        raise AssertionError("promote_due keeps returning that more is due now")

    # Moves

    def new(self, **fields: object) -> NewJob:
        """A NewJob in this harness's queue, unless *fields* say otherwise."""
        return NewJob(**{"type": "contract", "queue": self.queue, **fields})  # type: ignore[arg-type]  # fields by name

    def enqueue(self, *jobs: NewJob) -> Sequence[Enqueued]:
        """Enqueue in one call."""
        return self.backend.enqueue(jobs)

    def add(self, **fields: object) -> Job:
        """Enqueue one new job and return it as stored."""
        (enqueued,) = self.enqueue(self.new(**fields))
        assert enqueued.is_new, f"{enqueued.job.id} is new, but the result says that it was there already"
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
        """Promote, then make one lease call: its result may be short."""
        self.promote()
        leases = self.backend.lease(
            queues or (self.queue,), token=token or new_token(), worker_id=worker_id, duration=duration, limit=limit
        )
        self.leases.update(leases)
        return leases

    def lease(
        self, limit: int = 1_000, *, queues: Sequence[str] = (), worker_id: str = "contract", duration: float = LONG
    ) -> Sequence[Lease]:
        """Lease until *limit* are held or an result is empty, each call with a token of its own."""
        leases: list[Lease] = []
        while len(leases) < limit:
            more = self.lease_once(limit - len(leases), queues=queues, worker_id=worker_id, duration=duration)
            if not more:
                break
            leases.extend(more)
        return leases

    def lease_one(self, *, queue: str = "", worker_id: str = "contract", duration: float = LONG) -> Lease:
        """Lease the one job that a call of limit 1 gives."""
        (lease,) = self.lease_once(1, queues=(queue,) if queue else (), worker_id=worker_id, duration=duration)
        return lease

    def leased(self, duration: float = LONG, /, **fields: object) -> Lease:
        """Enqueue one job and lease it, in a queue where no other is ready."""
        job = self.add(**fields)
        lease = self.lease_one(queue=job.queue, duration=duration)
        assert lease.job.id == job.id
        return lease

    def recover(self, *queues: str) -> tuple[int, int]:
        """Recover all that has expired, in as many calls as it takes; returns how many became ready, and dead."""
        ready = dead = 0
        for _ in range(TURNS):
            recovery = self.backend.recover_expired(queues or self.queues, 1_000)
            ready, dead = ready + recovery.ready, dead + recovery.dead
            if recovery.next_expiry is None or recovery.next_expiry > 0.0:
                return ready, dead
        raise AssertionError("recover_expired keeps returning that more has expired")

    def trim(self, *queues: str) -> int:
        """Trim all that retention no longer keeps, in as many calls as it takes."""
        gone = 0
        for _ in range(TURNS):
            more = self.backend.trim(queues or self.queues, 1_000)
            gone += more
            if not more:
                return gone
        raise AssertionError("trim goes on finding something")
