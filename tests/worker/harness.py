"""What the worker's tests use: one store with faults, a queue of their own, and waits for events with a bound."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol, cast

from scheduler.backend import Backend
from scheduler.config import WorkerConfig
from scheduler.identity import new_token
from scheduler.jobs import Job, NewJob
from scheduler.leases import Lease
from scheduler.logs import GuardedLogger
from scheduler.metrics import CountingMetrics, Metrics
from scheduler.queues import Retention
from scheduler.retry import RetryPolicy
from scheduler.serializers import JsonSerializer, Serializer
from scheduler.states import TERMINAL, JobState
from scheduler.testing import FaultyBackend, faulty
from scheduler.worker import JobContext, Worker
from scheduler.worker.handlers import HandlerFunction, Handlers
from scheduler.worker.inflight import HeldJob, InFlight
from scheduler.worker.runner import JobRunner
from scheduler.worker.threads import Run

SOON = 30.0
"""Seconds within which what a test waits for has long happened; only a failure comes near it."""

KEEP = Retention(succeeded=86_400.0, cancelled=86_400.0, dead=86_400.0)
AT_ONCE = RetryPolicy.fixed(0.001)


class OpenBackend(Protocol):
    """Opens a backend on the store under test, which the test's end closes."""

    def __call__(self, retention: Retention = KEEP) -> Backend: ...


class Watch(CountingMetrics):
    """Counts, and wakes the threads that wait for something to become true."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = threading.Condition()

    def _add(self, name: str, count: int = 1) -> None:
        super()._add(name, count)
        self.stir()

    def stuck(self, threads: int) -> None:
        super().stuck(threads)
        self.stir()

    def stir(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def until(self, true: Callable[[], object], *, within: float = SOON) -> None:
        """Return when *true()* is; looked at whenever a hook was called, and now and then for what calls none."""
        end = time.monotonic() + within
        while not true():
            assert time.monotonic() < end, "what the test waits for did not happen"
            with self._changed:
                self._changed.wait(0.02)


class WorkerHarness:
    """`backend` is the store behind faults; `queue` is this test's own."""

    def __init__(self, backend: Backend) -> None:
        self.backend: FaultyBackend = faulty(backend)
        self.faults = self.backend.faults
        self.queue = f"worker-{uuid.uuid4().hex[:12]}"
        self.watch = Watch()
        self.runs: Counter[str] = Counter()  # handler starts, by job id: see `count_runs`
        self._workers: list[Worker] = []

    # ---- jobs

    def new(self, **fields: object) -> NewJob:
        return NewJob(**{"type": "work", "queue": self.queue, **fields})  # type: ignore[arg-type]  # by name

    def add(self, **fields: object) -> Job:
        (answer,) = self.backend.wrapped.enqueue([self.new(**fields)])
        assert answer.is_new
        return answer.job

    def add_many(self, count: int, **fields: object) -> list[Job]:
        answers = self.backend.wrapped.enqueue([self.new(**fields) for _ in range(count)])
        return [answer.job for answer in answers]

    def find(self, id: str, queue: str | None = None) -> Job | None:
        return self.backend.wrapped.get(queue or self.queue, [id]).get(id)

    def job(self, id: str) -> Job:
        job = self.find(id)
        assert job is not None, f"job {id} is gone"
        return job

    def state(self, id: str, queue: str | None = None) -> JobState | None:
        job = self.find(id, queue)
        return job.state if job else None

    def counts(self) -> dict[JobState, int]:
        rows = self.backend.wrapped.stats([self.queue])
        return {state: sum(row.counts[state] for row in rows) for state in JobState}

    def lease(self, limit: int = 1, *, duration: float = 30.0, worker_id: str = "other") -> Sequence[Lease]:
        """Lease as another worker would."""
        self.backend.wrapped.promote_due([self.queue], 1_000)
        return self.backend.wrapped.lease(
            [self.queue], token=new_token(), worker_id=worker_id, duration=duration, limit=limit
        )

    # ---- workers

    def config(self, **changes: object) -> WorkerConfig:
        quick: dict[str, object] = {
            "queues": (self.queue,),
            "concurrency": 2,
            "poll_interval": 0.05,
            "shutdown_grace": 10.0,
            "retry_policy": AT_ONCE,
        }
        return WorkerConfig(**{**quick, **changes})  # type: ignore[arg-type]  # by name

    def worker(self, handler: HandlerFunction | None = None, /, **options: object) -> Worker:
        """
        A worker on this harness's queue that handles jobs of the type "work"; stopped at the latest by the fixture.

        metrics, serializer, interrupt: as Worker and handle take them. Everything else changes the configuration.
        """
        given = {name: options.pop(name, None) for name in ("metrics", "serializer", "interrupt")}
        worker = Worker(
            self.backend,
            self.config(**options),
            metrics=cast("Metrics", given["metrics"] or self.watch),
            serializer=cast("Serializer | None", given["serializer"]),
        )
        if handler is not None:
            worker.handle("work", handler, interrupt=bool(given["interrupt"]))
        self._workers.append(worker)
        return worker

    def count_runs(self, job: Job, ctx: JobContext) -> None:
        """A handler that does nothing but count."""
        self.runs[job.id] += 1

    def until(self, true: Callable[[], object], *, within: float = SOON) -> None:
        self.watch.until(true, within=within)

    def until_state(self, id: str, *states: JobState, within: float = SOON) -> Job:
        self.until(lambda: self.state(id) in states, within=within)
        return self.job(id)

    def until_finished(self, *ids: str, queue: str | None = None, within: float = SOON) -> None:
        """Wait until every one of these jobs, none = all of the queue, is in a terminal state."""
        if ids:
            self.until(lambda: all(self.state(id, queue) in TERMINAL for id in ids), within=within)
            return
        self.until(lambda: not any(n for state, n in self.counts().items() if state not in TERMINAL), within=within)

    def close(self) -> None:
        self.faults.clear()
        for worker in self._workers:
            assert worker.stop(5.0), "a worker did not end"


class WorkerParts:
    """The parts of one run without its threads: `run` and `inflight` as a lifecycle makes them."""

    def __init__(self, harness: WorkerHarness, **changes: object) -> None:
        self.harness = harness
        self.config = harness.config(**changes)
        self.wake_ups = 0  # of the deadlines' thread
        logger = GuardedLogger(logging.getLogger("scheduler.worker"))
        self.run = Run(harness.backend, self.config, harness.watch, logger)
        self.shutdown, self.outage = self.run.shutdown, self.run.outage
        self.handlers = Handlers()
        self.runner = JobRunner(self.run, self.handlers, JsonSerializer())
        self.inflight = InFlight(self.config, open_context=self.runner.open, wake_deadlines=self._wake)

    def hold(self, count: int = 1, **fields: object) -> list[Lease]:
        """Enqueue and lease *count* jobs, as the pump does."""
        self.harness.add_many(count, **fields)
        leases = list(self.harness.lease(count, duration=self.config.lease_duration))
        self.inflight.take_in(leases)
        return leases

    def start(self) -> HeldJob:
        """Begin with the next held job, as a handler thread does."""
        row = self.inflight.begin()
        assert row is not None
        return row

    def _wake(self) -> None:
        self.wake_ups += 1
