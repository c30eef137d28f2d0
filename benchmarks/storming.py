"""
Processes that are killed, paused and restarted while they enqueue and work, and write down what they did.

    python -m benchmarks.storming produce URL QUEUE FOLDER NAME COUNT     COUNT jobs, 0 = until SIGTERM
    python -m benchmarks.storming work    URL QUEUE FOLDER NAME

A producer writes down each job that was acknowledged (FOLDER/NAME.acknowledged), a worker each job that was begun
(NAME.begun) and each lease that was completed (NAME.completed: id and token). One write a line: a kill loses no more
than the last.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.benchmark_store import with_options
from scheduler import JobContext, Worker, WorkerConfig
from scheduler.backend import Backend
from scheduler.errors import BackendUnavailable
from scheduler.jobs import Job, NewJob
from scheduler.leases import Completion, Lease
from scheduler.plugins import backend_from_url

TYPE = "storm"
ATTEMPTS = 100  # more than the kills that one job can meet
STALE = "3600"  # seconds for which a process believes what it knows of the versions, unless something tells it better


class Ledger:
    """A file of lines, each written at once. Any thread."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)

    def write(self, lines: Sequence[str]) -> None:
        """Append *lines*."""
        if lines:
            self._file.write("".join(f"{line}\n" for line in lines).encode())


def produce(url: str, queue: str, folder: Path, name: str, count: int) -> None:
    """Enqueue small batches, some of it for a little later; the very same batch again where the store was away."""
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
    _write_down_completions(backend, completed)
    config = WorkerConfig(
        queues=(queue,), concurrency=8, lease_duration=2.0, heartbeat_interval=0.5, recover_interval=1.0
    )
    worker = Worker(backend, config)

    @worker.handler(TYPE)
    def run(job: Job, ctx: JobContext) -> None:  # noqa: ARG001 - the contract's form
        begun.write([job.id])

    signal.signal(signal.SIGTERM, lambda *_: worker.request_stop())
    worker.run()


def _stale_backend(url: str) -> Backend:
    return backend_from_url(with_options(url, topology_interval=STALE) if "redis" in url.partition(":")[0] else url)


def _write_down_completions(backend: Backend, completed: Ledger) -> None:
    real = backend.complete

    def complete(completions: Sequence[Completion]) -> Sequence[Lease]:
        refused = real(completions)
        done = [one.lease for one in completions if one.lease not in refused]
        completed.write([f"{lease.job.id} {lease.token}" for lease in done])
        return refused

    backend.complete = complete  # type: ignore[method-assign]  # of this one object


def until_answered(call: Callable[[], object]) -> object:
    """The answer of *call*, which is repeated while the store is away."""
    while True:
        with suppress(BackendUnavailable):
            return call()
        time.sleep(0.05)


def lines(folder: Path, kind: str) -> list[str]:
    """All lines of a kind, of all processes. A line that a kill cut short is none."""
    found: list[str] = []
    for path in folder.glob(f"*.{kind}"):
        found += path.read_text().rpartition("\n")[0].split("\n")
    return [line for line in found if line]


class Crew:
    """The processes of a storm. Used by one thread; all of them are killed in the end."""

    def __init__(self, url: str, queue: str, folder: Path, seed: int) -> None:
        self._place = (url, queue, str(folder))
        self._draw = random.Random(seed)
        self._numbers = iter(range(1_000_000))
        self.producers: list[subprocess.Popen[bytes]] = []
        self.workers: list[subprocess.Popen[bytes]] = []
        self.kills = 0

    def add_producer(self, count: int = 0) -> None:
        """One more producer, of so many jobs."""
        self.producers.append(self._start("produce", f"producer{next(self._numbers)}", str(count)))

    def add_worker(self) -> None:
        """One more worker."""
        self.workers.append(self._start("work", f"worker{next(self._numbers)}"))

    def wait_until_busy(self, timeout: float) -> None:
        """Return when each process has written down that it does something."""
        folder = Path(self._place[2])
        deadline = time.monotonic() + timeout
        wanted = len(self.producers) + len(self.workers)
        while (
            sum(path.stat().st_size > 0 for kind in ("acknowledged", "begun") for path in folder.glob(f"*.{kind}"))
            < wanted
        ):
            if time.monotonic() > deadline:
                raise RuntimeError("the processes do not come to work")
            time.sleep(0.05)

    def kill_a_worker(self) -> None:
        """SIGKILL one of them and start another."""
        victim = self.workers.pop(self._draw.randrange(len(self.workers)))
        victim.kill()
        victim.wait()
        self.kills += 1
        self.add_worker()

    @contextmanager
    def paused_producer(self) -> Iterator[None]:
        """SIGSTOP one of them meanwhile: it goes on with what it knew."""
        chosen = self._draw.choice(self.producers)
        chosen.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            chosen.send_signal(signal.SIGCONT)

    def finish(self, crew: list[subprocess.Popen[bytes]], timeout: float) -> None:
        """End them in order, and see that they end well."""
        for one in crew:
            one.send_signal(signal.SIGTERM)
        for one in crew:
            # One that had only just started did not listen yet, and was ended by the signal itself.
            if one.wait(timeout) not in (0, -signal.SIGTERM):
                raise RuntimeError(f"a process ended with {one.returncode}")
        crew.clear()

    def close(self) -> None:
        """Kill whatever is left."""
        for one in (*self.producers, *self.workers):
            one.send_signal(signal.SIGCONT)
            one.kill()
            one.wait()

    def _start(self, role: str, name: str, *more: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "benchmarks.storming", role, *self._place, name, *more]
        return subprocess.Popen(command)  # noqa: S603 - our own


if __name__ == "__main__":
    _, role, url, queue, folder, name, *more = sys.argv
    if role == "produce":
        produce(url, queue, Path(folder), name, int(more[0]))
    else:
        work(url, queue, Path(folder), name)
