"""
Processes that are killed, paused and restarted while they enqueue and work, and record what they did.

    python tests/storms/roles.py produce URL QUEUE FOLDER NAME COUNT     COUNT jobs, 0 = until SIGTERM
    python tests/storms/roles.py work    URL QUEUE FOLDER NAME

A producer records each job that was acknowledged (FOLDER/NAME.acknowledged), a worker each job that was begun
(NAME.begun) and each lease that was completed (NAME.completed: id and token). One write a line: a kill loses no more
than the last one.
"""

from __future__ import annotations

import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from scheduler import JobContext, Worker, WorkerConfig
from scheduler.backend import Backend
from scheduler.errors import BackendUnavailable
from scheduler.jobs import Job, NewJob
from scheduler.leases import Completion, Lease
from scheduler.plugins import backend_from_url

TYPE = "storm"
WAIT_TIMEOUT = 180.0  # seconds for what takes a few, on a loaded machine
ATTEMPTS = 100  # more than the kills that one job can meet
STALE = "3600"  # seconds for which a process uses the versions that it has read, unless the store rejects them


class Ledger:
    """A file of lines, each written at once. Any thread."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)

    def write(self, lines: Sequence[str]) -> None:
        """Append *lines*."""
        if lines:
            self._file.write("".join(f"{line}\n" for line in lines).encode())


def produce(url: str, queue: str, folder: Path, name: str, count: int) -> None:
    """Enqueue small batches, some jobs for a little later. Repeat a batch while the store is away."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    backend = _stale_backend(url)
    acknowledged = Ledger(folder / f"{name}.acknowledged")
    draw = random.Random(name)
    done = 0
    while not stop.is_set() and (done < count or not count):
        size = min(draw.randint(1, 20), count - done) if count else draw.randint(1, 20)
        jobs = [
            NewJob(
                type=TYPE,
                queue=queue,
                id=f"{name}-{done + number}",
                delay=draw.choice((None, None, draw.random() * 0.3)),
                max_retries=ATTEMPTS,
            )
            for number in range(size)
        ]
        until_answered(lambda jobs=jobs: backend.enqueue(jobs))  # type: ignore[misc]  # bound on purpose
        acknowledged.write([job.id for job in jobs])
        done += size
        stop.wait(0.0 if count else draw.random() * 0.02)


def work(url: str, queue: str, folder: Path, name: str) -> None:
    """Run jobs until SIGTERM."""
    begun, completed = Ledger(folder / f"{name}.begun"), Ledger(folder / f"{name}.completed")
    backend = _stale_backend(url)
    _record_completions(backend, completed)
    config = WorkerConfig(
        queues=(queue,), concurrency=8, lease_duration=2.0, heartbeat_interval=0.5, recover_interval=1.0
    )
    worker = Worker(backend, config)

    @worker.handler(TYPE)
    def run(job: Job, ctx: JobContext) -> None:
        begun.write([job.id])

    signal.signal(signal.SIGTERM, lambda *_: worker.request_stop())
    worker.run()


def _stale_backend(url: str) -> Backend:
    if url.startswith("redis"):
        url += f"{'&' if '?' in url else '?'}topology_interval={STALE}"
    return backend_from_url(url)


def _record_completions(backend: Backend, completed: Ledger) -> None:
    real = backend.complete

    def complete(completions: Sequence[Completion]) -> Sequence[Lease]:
        refused = real(completions)
        done = [one.lease for one in completions if one.lease not in refused]
        completed.write([f"{lease.job.id} {lease.token}" for lease in done])
        return refused

    backend.complete = complete  # type: ignore[method-assign]  # of this one object


def until(condition: Callable[[], object], timeout: float, otherwise: str) -> None:
    """Wait until *condition* holds, of which no event comes from the other processes; raise *otherwise* if in vain."""
    deadline, never = time.monotonic() + timeout, threading.Event()
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(otherwise)
        never.wait(0.05)


def until_answered(call: Callable[[], object]) -> object:
    """Repeat *call* while the store is away, and return its result."""
    results: list[object] = []

    def has_answered() -> bool:
        with suppress(BackendUnavailable):
            results.append(call())
        return bool(results)

    until(has_answered, WAIT_TIMEOUT, "the store does not answer")
    return results[0]


if __name__ == "__main__":
    _, role, url, queue, folder, name, *more = sys.argv
    if role == "produce":
        produce(url, queue, Path(folder), name, int(more[0]))
    else:
        work(url, queue, Path(folder), name)
