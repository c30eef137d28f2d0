"""Workers inside the test's own process: what they ran, and what their calls to the store came to."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable

from scheduler import Job, JobContext, RetryPolicy, Worker, WorkerConfig, backend_from_url
from scheduler.metrics import CountingMetrics

LEASE = 1.0
COUNTED = ("lease", "promote_due", "recover_expired", "renew")


class Crew:
    """A worker on a backend of its own. Jobs of the type "work" run until `go` is set, or the context is cancelled."""

    def __init__(self, url: str, **changes: object) -> None:
        self.backend = backend_from_url(url)
        self.calls: Counter[str] = Counter()
        for name in COUNTED:
            setattr(self.backend, name, self._counted(name, getattr(self.backend, name)))
        self.metrics = CountingMetrics()
        self.runs: Counter[str] = Counter()
        self.go = threading.Event()
        settings: dict[str, object] = {
            "concurrency": 2,
            "lease_duration": LEASE,
            "heartbeat_interval": 0.3,
            "recover_interval": 0.5,
            "poll_interval": 0.2,
            "shutdown_grace": 10.0,
            "retry_policy": RetryPolicy.fixed(0.01),
        }
        self.worker = Worker(self.backend, WorkerConfig(**settings | changes), metrics=self.metrics)  # type: ignore[arg-type]  # by name
        self.worker.handle("work", self._work)

    def _counted(self, name: str, call: Callable[..., object]) -> Callable[..., object]:
        def counted(*arguments: object, **options: object) -> object:
            self.calls[name] += 1
            return call(*arguments, **options)

        return counted

    def _work(self, job: Job, ctx: JobContext) -> None:
        self.runs[job.id] += 1
        while not self.go.wait(0.01) and not ctx.cancelled.is_set():
            pass

    def close(self) -> None:
        self.go.set()
        self.worker.stop()
        self.backend.close()


def service_threads() -> set[str]:
    """Names of the threads that a worker at work always has; those of its pool come and go."""
    names = {thread.name for thread in threading.enumerate() if thread.name.startswith("scheduler")}
    return {name for name in names if "job_" not in name}


def elapse(seconds: float) -> None:
    """Let time pass, where what is tested is that nothing happens meanwhile."""
    end = time.monotonic() + seconds
    never = threading.Event()
    while (left := end - time.monotonic()) > 0.0:
        never.wait(left)
