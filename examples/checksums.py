"""
Compute the checksums of real files: one job per file under DIR, on any store.

The size of a file selects one of three queues, and the jobs have all priorities. Three quarters of them are due at
once. When these are done, the others are scheduled 1 to 3 seconds ahead, so that the worker is idle when they become
due. The store keeps the return value of the handler, the SHA-256. At the end, every digest is compared with one that
hashlib computes directly. If a digest differs or is missing, the exit code is 1.

    python examples/checksums.py [DIR] [--backend URL]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import sys
import sysconfig
import threading
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from scheduler.backend import Backend
from scheduler.config import WorkerConfig
from scheduler.errors import ConfigError
from scheduler.jobs import Job, NewJob, Priority
from scheduler.plugins import backend_from_url
from scheduler.producer import Producer
from scheduler.retry import RetryPolicy
from scheduler.states import TERMINAL, JobState
from scheduler.worker import JobContext, Worker

QUEUES = ("small", "medium", "large")
SMALL, MEDIUM = 4 * 1024, 64 * 1024  # bytes
LATER = 0.25  # share of jobs that are scheduled ahead
LOOK_EVERY = 0.25  # seconds
LIVE = sys.stdout.isatty()
DEFAULT_DIR = Path(sysconfig.get_path("stdlib"))


def files_under(folder: Path) -> Iterator[Path]:
    """Yield files and broken links, but no pipes or devices, which may have no end."""
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - {"__pycache__", "site-packages"})
        for path in (Path(where, name) for name in sorted(names)):
            if path.is_file() or not path.exists():
                yield path


def queue_of(path: Path) -> str:
    """Return the queue for a file of this size. If the size cannot be read, the queue is "small"."""
    try:
        size = path.stat().st_size
    except OSError:
        size = 0
    return QUEUES[(size >= SMALL) + (size >= MEDIUM)]


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Lateness:
    """Seconds between run_at and the first start of each job."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _seconds: several handler threads write
        self._seconds: dict[str, float] = {}

    def started(self, job: Job) -> None:
        """Record the first start of a job. Later attempts do not count."""
        with self._lock:
            self._seconds.setdefault(job.id, (datetime.now(UTC) - job.run_at).total_seconds())

    def among(self, ids: Iterable[str]) -> list[float]:
        """Return the seconds for the jobs among *ids* that were started, in ascending order."""
        with self._lock:
            return sorted(self._seconds[id] for id in ids if id in self._seconds)


class Checksums:
    """One run: the files, and the state of their jobs."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.producer = Producer(backend)
        self.lateness = Lateness()
        self.files: dict[str, Path] = {}  # by job id
        self.ahead: set[str] = set()  # ids of the jobs scheduled ahead
        self.open: dict[str, set[str]] = {queue: set() for queue in QUEUES}  # ids not known to be finished
        self.done: dict[str, Job] = {}
        config = WorkerConfig(queues=QUEUES, concurrency=8, retry_policy=RetryPolicy.fixed(0.2))
        self.worker = Worker(backend, config)
        self.worker.handle("checksum", self.checksum)

    def checksum(self, job: Job, ctx: JobContext) -> str:  # noqa: ARG002 - a handler takes both
        """Handle a job. If its file cannot be read, OSError fails the attempt, and the job is retried."""
        self.lateness.started(job)
        return digest_of(Path(os.fsdecode(job.payload)))

    def enqueue(self, files: Iterable[Path], *, ahead: bool) -> None:
        """Enqueue one job per file, in batches. When this returns, the store has acknowledged all jobs."""
        now = datetime.now(UTC)
        jobs: list[NewJob] = []
        for number, path in enumerate(files):
            jobs.append(
                self.producer.new_job(
                    "checksum",
                    os.fsencode(path),
                    queue=queue_of(path),
                    priority=Priority(number % len(Priority)),
                    run_at=now + timedelta(seconds=random.uniform(1.0, 3.0)) if ahead else None,
                    max_retries=2,
                    timeout=600.0,
                )
            )
            self.files[jobs[-1].id] = path
        for result in self.producer.enqueue_many(jobs):
            self.open[result.job.queue].add(result.job.id)
            if ahead:
                self.ahead.add(result.job.id)

    def wait(self, title: str) -> None:
        """Show progress until every job that was enqueued is finished."""
        while any(self.open.values()):
            time.sleep(LOOK_EVERY)
            for queue, ids in self.open.items():
                jobs = self.backend.get(queue, sorted(ids))
                self.done.update((id, job) for id, job in jobs.items() if job.state in TERMINAL)
                # A job that the store no longer has is lost, so there is nothing to wait for.
                ids.intersection_update(id for id, job in jobs.items() if job.state not in TERMINAL)
            print(f"  {title}: {len(self.done):,} of {len(self.files):,} files", end="\r" if LIVE else "\n", flush=True)
        if LIVE:
            print()

    def table(self) -> str:
        """Return a table of the results, one line for each queue."""
        lines = [f"  {'queue':8}{'done':>8}{'retried':>9}{'dead':>6}{'median late':>14}{'p99 late':>12}"]
        for queue in (*QUEUES, "all"):
            jobs = {id: job for id, job in self.done.items() if queue in (job.queue, "all")}
            states = [job.state for job in jobs.values()]
            late = self.lateness.among(self.ahead & jobs.keys())
            lines.append(
                f"  {queue:8}{states.count(JobState.SUCCEEDED):8,}"
                f"{sum(job.attempts > 1 for job in jobs.values()):9,}{states.count(JobState.DEAD):6,}"
                f"{milliseconds(late, 0.5):>14}{milliseconds(late, 0.99):>12}"
            )
        return "\n".join(lines)

    def differences(self) -> Iterator[str]:
        """Yield a line for every file whose digest is missing or differs from the one that hashlib computes now."""
        for id, path in self.files.items():
            job = self.done.get(id)
            try:
                expected = digest_of(path)
            except OSError:
                expected = None
            if job is None:
                yield f"{path}: job {id} is lost"
            elif job.state is JobState.SUCCEEDED and (job.result is None or json.loads(job.result) != expected):
                yield f"{path}: {job.result!r}, not {expected}"
            elif job.state is not JobState.SUCCEEDED and expected is not None:
                yield f"{path}: {job.state}, although it can be read"


def milliseconds(ascending: list[float], share: float) -> str:
    return f"{ascending[int(share * (len(ascending) - 1))] * 1_000:.1f} ms" if ascending else "-"


def keeping_results(url: str) -> str:
    """Return *url* with an option to keep results for an hour, unless it sets that option itself."""
    if "retain_succeeded=" in url:
        return url
    url = url if "://" in url else f"{url}://"
    return f"{url}{'&' if '?' in url else '?'}retain_succeeded=3600"


def main() -> int:
    parser = argparse.ArgumentParser(description="Checksums of real files, one job per file.")
    parser.add_argument("dir", nargs="?", type=Path, default=DEFAULT_DIR, metavar="DIR", help=f"default {DEFAULT_DIR}")
    parser.add_argument("--backend", default="memory://", metavar="URL", help="default memory://")
    options = parser.parse_args()
    files = list(files_under(options.dir.resolve()))
    if not files:
        parser.error(f"no files under {options.dir}")
    random.shuffle(files)
    ahead = int(len(files) * LATER)

    try:
        backend = backend_from_url(keeping_results(options.backend))
    except ConfigError as error:
        parser.error(str(error))
    began = time.monotonic()
    run = Checksums(backend)
    with run.worker:
        run.enqueue(files[ahead:], ahead=False)
        run.wait("due at once")
        run.enqueue(files[:ahead], ahead=True)
        run.wait("scheduled ahead")
    backend.close()
    print(f"\n{run.table()}\n\n{len(run.done):,} jobs in {time.monotonic() - began:.1f} s")

    for job in run.done.values():
        if job.state is JobState.DEAD and job.last_error is not None:
            print(f"dead: {run.files[job.id]}: {job.last_error.kind}: {job.last_error.message}")
    differences = list(run.differences())
    for difference in differences:
        print(f"DIFFERENT: {difference}", file=sys.stderr)
    print("Every digest is the one that hashlib computes." if not differences else f"{len(differences)} differences.")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
