"""A worker whose handlers behave. What lasts, lasts until a file called "go" lies beside the ledger."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from ledger import note

from scheduler import Job, JobContext, RetryPolicy, Worker, WorkerConfig, backend_from_url

LEASE, RECOVER_INTERVAL = float(os.environ.get("LEASE", "1")), 2.0

backend = backend_from_url(os.environ["JOBS"])
worker = Worker(
    backend,
    WorkerConfig(
        concurrency=4,
        lease_duration=LEASE,
        heartbeat_interval=0.3 * LEASE,
        recover_interval=RECOVER_INTERVAL,
        poll_interval=0.2,
        shutdown_grace=float(os.environ.get("GRACE", "20")),
        timeout_grace=0.2,
        retry_policy=RetryPolicy.fixed(0.01),
    ),
)
go = Path(os.environ["LEDGER"]).with_name("go")
never = threading.Event()


@worker.handler("quick")
def quick(job: Job, ctx: JobContext) -> None:
    note("began", job)
    never.wait(0.02)


@worker.handler("lasting")
def lasting(job: Job, ctx: JobContext) -> None:
    note("began", job)
    while not go.exists() and not ctx.cancelled.wait(0.02):
        pass
    note("ended", job)
    ctx.check()


@worker.handler("stuck")
def stuck(job: Job, ctx: JobContext) -> None:
    note("began", job)
    never.wait()
