"""
Checksums of real files: one job per file under DIR, on any store.

Jobs are spread over three queues, by size, and over the priorities. Three quarters of them are due at once; when those
are done, the rest is scheduled 1 to 3 seconds ahead, so that their lateness is that of an idle worker. The handler's
return value, the SHA-256, is kept by the store and read back from there. In the end every digest is compared with one
that hashlib computes directly: any difference or loss makes the exit code 1.

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
LATER = 0.25  # the share of jobs that is scheduled ahead
LOOK_EVERY = 0.25  # seconds
LIVE = sys.stdout.isatty()
DEFAULT_DIR = Path(sysconfig.get_path("stdlib"))


def files_under(folder: Path) -> Iterator[Path]:
    """Files and links that lead nowhere; no pipes or devices, whose end nobody knows."""
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - {"__pycache__", "site-packages"})
        for path in (Path(where, name) for name in sorted(names)):
            if path.is_file() or not path.exists():
                yield path


def queue_of(path: Path) -> str:
    """The queue for a file of this size; one that cannot be asked is small."""
    try:
        size = path.stat().st_size
    except OSError:
        size = 0
    return QUEUES[(size >= SMALL) + (size >= MEDIUM)]


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Lateness:
    """Seconds between run_at and the first start of each job that was scheduled ahead."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _seconds: several handler threads write
        self._seconds: dict[str, float] = {}

    def started(self, job: Job) -> None:
        """A handler starts; later attempts do not count."""
        with self._lock:
            self._seconds.setdefault(job.id, (datetime.now(UTC) - job.run_at).total_seconds())

    def among(self, ids: Iterable[str]) -> list[float]:
        """Of those *ids* that were started, ascending."""
        with self._lock:
            return sorted(self._seconds[id] for id in ids if id in self._seconds)


class Checksums:
    """One run: who is to be hashed, and what has become of each."""

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
        """The handler. A file that cannot be read raises OSError: the attempt failed, and is made again."""
        self.lateness.started(job)
        return digest_of(Path(os.fsdecode(job.payload)))

    def enqueue(self, files: Iterable[Path], *, ahead: bool) -> None:
        """One job per file, in batches, all acknowledged by the store when this returns."""
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
        for answer in self.producer.enqueue_many(jobs):
            self.open[answer.job.queue].add(answer.job.id)
            if ahead:
                self.ahead.add(answer.job.id)

    def wait(self, title: str) -> None:
        """Show progress until every job that was enqueued is finished."""
        while any(self.open.values()):
            time.sleep(LOOK_EVERY)
            for queue, ids in self.open.items():
                jobs = self.backend.get(queue, sorted(ids))
                self.done.update((id, job) for id, job in jobs.items() if job.state in TERMINAL)
                # A job that the store does not know any more is lost: there is nothing to wait for.
                ids.intersection_update(id for id, job in jobs.items() if job.state not in TERMINAL)
            print(f"  {title}: {len(self.done):,} of {len(self.files):,} files", end="\r" if LIVE else "\n", flush=True)
        if LIVE:
            print()

    def table(self) -> str:
        """What became of the jobs, a line a queue."""
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
        """Everything that is not as hashlib says, computed here and now."""
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
    """*url* with results kept for an hour, unless it says how long itself."""
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
