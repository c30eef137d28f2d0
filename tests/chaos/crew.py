"""A worker's process: `python -m chaos.crew URL FOLDER NAME`. Writes down every lease, run and settle."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from chaos.jobs import KINDS, LEASE, QUEUES
from chaos.ledger import Ledger
from scheduler.backend import Backend
from scheduler.config import WorkerConfig
from scheduler.errors import BackendError, Snooze
from scheduler.jobs import Job
from scheduler.leases import Lease, Renewal
from scheduler.plugins import backend_from_url
from scheduler.retry import RetryPolicy
from scheduler.worker import JobContext, Worker

_SAMPLE_EVERY = 1.0  # seconds
_SHIFT = 3600.0  # seconds that a jumping clock jumps
_SETTLES = ("complete", "retry", "bury", "release")


def recorded(backend: Backend, ledger: Ledger) -> Backend:
    """*backend*, whose leases, settles and refused renewals are written down as the store answered them."""

    def lease(*arguments: Any, **named: Any) -> Sequence[Lease]:
        leases: Sequence[Lease] = real_lease(*arguments, **named)
        if leases:
            ledger.write("leased", token=named["token"], ids=[_name(one.job) for one in leases])
        return leases

    def renew(leases: Sequence[Lease], duration: float) -> Renewal:
        renewal = real_renew(leases, duration)
        if renewal.refused:
            # Not as "refused": a settle of another thread may have taken effect just before, and be written just after.
            ledger.write("not renewed", leases=[_proof(lease) for lease in renewal.refused])
        return renewal

    def settling(verdict: str, real: Callable[[Sequence[Any]], Sequence[Lease]]) -> Callable[[Sequence[Any]], Any]:
        def settle(orders: Sequence[Any]) -> Sequence[Lease]:
            leases = [order if isinstance(order, Lease) else order.lease for order in orders]
            try:
                refused = real(orders)
            except BackendError:
                ledger.write("unknown", verdict=verdict, leases=[_proof(lease) for lease in leases])
                raise
            ledger.write(
                "settled",
                verdict=verdict,
                done=[_proof(lease) for lease in leases if lease not in refused],
                refused=[_proof(lease) for lease in refused],
            )
            return refused

        return settle

    real_lease, real_renew = backend.lease, backend.renew
    backend.lease, backend.renew = lease, renew  # type: ignore[method-assign]  # of this one object
    for verdict in _SETTLES:
        setattr(backend, verdict, settling(verdict, getattr(backend, verdict)))
    return backend


def _name(job: Job) -> str:
    return f"{job.queue}/{job.id}"


def _proof(lease: Lease) -> list[str]:
    return [_name(lease.job), lease.token]


class Crew:
    """One worker and its handlers. `token_of` a running job is found by the leases that were recorded."""

    def __init__(self, backend: Backend, ledger: Ledger, name: str) -> None:
        self._ledger = ledger
        self._chance = random.Random(name)
        self.worker = Worker(
            backend,
            WorkerConfig(
                worker_id=name,
                queues=QUEUES,
                concurrency=4,
                lease_duration=LEASE,
                heartbeat_interval=0.5,
                poll_interval=0.5,
                recover_interval=0.5,
                shutdown_grace=5.0,
                timeout_grace=0.3,
                max_stuck=None,
                retry_policy=RetryPolicy(initial=0.1, cap=1.0),
            ),
        )
        for kind in KINDS:
            self.worker.handle(kind.name, self._handle)

    def _handle(self, job: Job, ctx: JobContext) -> None:
        run = f"{job.attempts}/{os.urandom(4).hex()}"
        self._ledger.write("began", id=_name(job), attempt=job.attempts, run=run)
        try:
            self._work(job, ctx)
        finally:
            error = sys.exc_info()[0]
            how = "returned" if error is None else error.__name__
            self._ledger.write("ended", id=_name(job), run=run, how=how, cancelled=ctx.reason)

    def _work(self, job: Job, ctx: JobContext) -> None:
        if job.type == "slow":
            time.sleep(self._chance.uniform(0.05, 0.4))
        elif job.type == "long":
            ctx.cancelled.wait(LEASE * self._chance.uniform(1.2, 2.0))
            ctx.check()
        elif job.type == "flaky" and len(job.errors) < 2:
            raise ConnectionError("flaky")
        elif job.type == "snoozing" and self._chance.random() < 0.5:
            raise Snooze(0.2)
        elif job.type == "late" and not job.errors:
            time.sleep(1.5)
        elif job.type == "doomed":
            raise ValueError("doomed")


def sample(ledger: Ledger, pid: int = 0) -> None:
    """Write down this process's memory, threads and descriptors."""
    process = Path("/proc") / (str(pid) if pid else "self")
    pages = int((process / "statm").read_text().split()[1])
    ledger.write(
        "sample",
        at=time.monotonic(),
        memory=pages * os.sysconf("SC_PAGE_SIZE"),
        threads=threading.active_count(),
        descriptors=len(list((process / "fd").iterdir())),
    )


def _let_the_clock_jump() -> None:
    """USR2: this process's wall clock goes an hour forth, then back, then right again."""
    shifts = [0.0]
    real_time, real_ns = time.time, time.time_ns

    def jump(_number: int, _frame: FrameType | None) -> None:
        shifts[0] = {0.0: _SHIFT, _SHIFT: -_SHIFT, -_SHIFT: 0.0}[shifts[0]]

    time.time = lambda: real_time() + shifts[0]
    time.time_ns = lambda: real_ns() + int(shifts[0] * 1e9)
    signal.signal(signal.SIGUSR2, jump)


def main(url: str, folder: str, name: str) -> None:
    """Work until TERM."""
    _let_the_clock_jump()
    ledger = Ledger(Path(folder), name)
    crew = Crew(recorded(backend_from_url(url), ledger), ledger, name)
    signal.signal(signal.SIGTERM, lambda *_: crew.worker.request_stop())
    never = threading.Event()

    def keep_samples() -> None:
        while not never.wait(_SAMPLE_EVERY):
            sample(ledger)

    threading.Thread(target=keep_samples, daemon=True).start()
    report = crew.worker.run()
    ledger.write("bye", settled=report.settled, released=report.released, abandoned=report.abandoned)
    os._exit(0)  # a late handler must not keep the process


if __name__ == "__main__":
    main(*sys.argv[1:])
