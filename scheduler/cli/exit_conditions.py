"""When a worker has done what it was started for: drained its queues, run so many jobs, grown so large."""

from __future__ import annotations

import resource
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from scheduler.cli.options import WorkerOptions
from scheduler.jobs import Job
from scheduler.metrics import NopMetrics
from scheduler.states import JobState
from scheduler.worker import Worker

_MIB = 1024 * 1024


class ExitConditions(NopMetrics):
    """
    Asked every moment by the process's monitor thread.

    It counts the jobs that have run, as one of the worker's metrics, and calls *enough* when they are enough: thousands
    may run between two looks of the monitor.
    """

    def __init__(self, worker: Worker, options: WorkerOptions, enough: Callable[[], None]) -> None:
        self._worker = worker
        self._options = options
        self._enough = enough
        self._idle_before = False
        self._jobs = 0
        self._lock = threading.Lock()  # guards _jobs: every handler thread counts

    def finished(self, job: Job, operation: str, seconds: float) -> None:  # noqa: ARG002 - a hook
        """Count a job that has run."""
        with self._lock:
            self._jobs += 1
            enough = self._jobs == self._options.max_jobs
        if enough:
            self._enough()

    def reached(self) -> str | None:
        """Why the run should end now, None = it should go on."""
        options = self._options
        if options.burst and self._drained():
            return "the queues are drained"
        if options.max_jobs is not None and self._jobs >= options.max_jobs:
            return f"{self._jobs} jobs have run"
        if options.max_memory is not None and (used := resident_memory() / _MIB) > options.max_memory:
            return f"the process uses {used:.0f} MiB"
        return None

    def _drained(self) -> bool:
        # Nothing held and nothing ready, twice in a row: between a promotion and its lease both look empty.
        stats = self._worker.backend.stats(self._worker.config.queues)
        idle = self._worker.health.held == 0 and not any(row.counts[JobState.READY] for row in stats if not row.paused)
        twice, self._idle_before = idle and self._idle_before, idle
        return twice


def resident_memory() -> int:
    """Bytes of resident memory of this process; its peak where the system tells no present figure."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    return pages * resource.getpagesize()
