"""Why a worker process exits, and with which status."""

from __future__ import annotations

import logging
import os
import resource
import sys
import threading
from collections.abc import Callable, Sequence
from enum import IntEnum
from pathlib import Path

from scheduler.cli.options import WorkerOptions
from scheduler.errors import BackendError, BackendUnavailable
from scheduler.jobs import Job
from scheduler.logs import printable
from scheduler.metrics import NopMetrics
from scheduler.queues import QueueStats
from scheduler.states import JobState
from scheduler.worker import Worker

_log = logging.getLogger(__name__)
_MIB = 1024 * 1024


class Exit(IntEnum):
    """Documented in docs/running-workers.md. A process that a second signal ends at once exits with 128 + signal."""

    STOPPED = 0  # as requested: by a signal, --burst, --max-jobs or --max-memory
    CRASHED = 1  # a bug of the worker or the application
    USAGE = 2  # to be corrected: the command line, the configuration, the application's import, the store's schema
    STUCK = 3  # too many handler threads did not return
    ABANDONED = 4  # stopped in time, but jobs were still held: they run again when their leases expire
    STORE = 5  # the store cannot be used: it is closed, or lacks an ability


class ExitConditions(NopMetrics):
    """
    The conditions of --burst, --max-jobs and --max-memory, checked regularly by the process's monitor thread.

    As one of the worker's metrics it also counts jobs, and calls *on_max_jobs* at the limit: thousands of jobs may run
    between two checks.
    """

    def __init__(self, worker: Worker, options: WorkerOptions, on_max_jobs: Callable[[], None]) -> None:
        self._worker = worker
        self._options = options
        self._on_max_jobs = on_max_jobs
        self._idle_before = False
        self._uncounted: set[str] = set()  # queues that were logged
        self._jobs = 0
        self._lock = threading.Lock()  # guards _jobs: every handler thread counts

    def finished(self, job: Job, operation: str, seconds: float) -> None:  # noqa: ARG002 - a hook
        """Count a job that has run."""
        with self._lock:
            self._jobs += 1
            at_limit = self._jobs == self._options.max_jobs
        if at_limit:
            self._on_max_jobs()

    def reached(self) -> str | None:
        """Return the reason why the run should end now, None if it should go on."""
        options = self._options
        # First what needs no store, since the store may be away.
        if options.max_jobs is not None and self._jobs >= options.max_jobs:
            return f"{self._jobs} jobs have run"
        if options.max_memory is not None and (used := _resident_memory() / _MIB) > options.max_memory:
            return f"the process uses {used:.0f} MiB"
        if options.burst and self._drained():
            return "the queues are drained"
        return None

    def _drained(self) -> bool:
        # Nothing held and nothing ready, twice in a row: between a promotion and its lease both are empty.
        ready = any(row.counts[JobState.READY] for row in self._stats() if not row.paused)
        idle = self._worker.health.held == 0 and not ready
        twice, self._idle_before = idle and self._idle_before, idle
        return twice

    def _stats(self) -> Sequence[QueueStats]:
        """Return the numbers of the queues, without those that cannot be counted, such as damaged ones."""
        backend, queues = self._worker.backend, self._worker.config.queues
        try:
            return backend.stats(queues)
        except BackendUnavailable:
            raise
        except BackendError:
            rows: list[QueueStats] = []
            failed: dict[str, BackendError] = {}
            for queue in queues:
                try:
                    rows += backend.stats([queue])
                except BackendUnavailable:
                    raise
                except BackendError as error:
                    failed[queue] = error
            for queue, failure in failed.items():
                if queue not in self._uncounted:
                    self._uncounted.add(queue)
                    _log.warning("Queue %s is left out of --burst: %s", printable(queue), failure)
            if not rows:  # then it is not the fault of a queue
                raise
            return rows


def _resident_memory() -> int:
    """Return this process's resident memory in bytes; its peak where the system has no present figure."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except (OSError, IndexError, ValueError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def exit_at_once(status: int) -> None:
    """
    Flush logs and streams, and end the process.

    For a process with threads that still run: the interpreter's own exit would wait for those that handlers started.
    """
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):  # None, closed, or a pipe without a reader
            continue
    os._exit(status)
