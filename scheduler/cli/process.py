"""A process that runs a worker, alone or under a supervisor."""

from __future__ import annotations

import logging
import math
import os
import resource
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from scheduler.cli import signals
from scheduler.cli.health_port import serve_health
from scheduler.cli.options import WorkerOptions
from scheduler.cli.protocol import Exit, Exiting, Running, Status, SupervisorLink
from scheduler.cli.systemd import ServiceManager
from scheduler.cli.target import load_worker
from scheduler.errors import (
    BackendClosed,
    BackendError,
    BackendUnavailable,
    ConfigError,
    NotSupported,
    SchemaMismatch,
    WorkerCrashed,
)
from scheduler.jobs import Job
from scheduler.logs import printable
from scheduler.metrics import CountingMetrics, MetricsGroup, NopMetrics
from scheduler.queues import QueueStats
from scheduler.states import JobState
from scheduler.worker import Worker
from scheduler.worker.log_lines import fields, named
from scheduler.worker.threads import Ticker
from scheduler.worker.wake_event import SIGNALS_SEEN_WITHIN

_log = logging.getLogger(__name__)
_MAIN = threading.main_thread()
_MIB = 1024 * 1024
_CHECK_EVERY = 1.0  # seconds between two checks of the monitor
_CHECK_EVERY_IN_BURST = 0.1
_CHECKED_QUEUES = 100  # with more queues, statistics would be expensive
_CHECKED_LEASES = 1_000  # per queue, searched for those of a crashed process


class WorkerProcess:
    """Process that loads the application's worker, monitors it, and runs it on the main thread."""

    def __init__(self, options: WorkerOptions, link: SupervisorLink | None) -> None:
        self._options = options
        self._link = link
        self._counting = CountingMetrics()
        worker = load_worker(options.target)
        if link is not None and options.processes > 1 and worker.backend.in_process:
            raise ConfigError("processes", "must be 1: with this backend, each process would have its own jobs")
        # The application's own object, not a copy, because handlers may call its methods.
        worker.config = worker.with_config(**options.changes()).config
        self._monitor = Ticker(name="scheduler-monitor", duty=self._check, crashed=_log_failure, lasting=True)
        self._exit_conditions = ExitConditions(worker, options, self._monitor.set)
        worker.metrics = MetricsGroup(self._counting, self._exit_conditions, worker.metrics)
        self._worker = worker
        self._service = ServiceManager()
        self._checked_start = False
        self._stop_until = math.inf  # when the requested stop must be complete, by time.monotonic()

    def run(self) -> int:
        """Run the worker and return the exit status. Does not return if a thread would keep the process alive."""
        signals.install(self._request_stop, self._options.log_format)
        with ExitStack() as stack:
            if self._link is None:
                stack.enter_context(serve_health(self._options, self._status))
            else:
                self._link.send(Running(grace=self._worker.config.shutdown_grace))
                self._link.watch(self._request_stop)
            self._monitor.start()
            stack.callback(self._monitor.stop)
            status = self._run()
        if self._link is not None:
            self._link.send(Exiting(status=status))
        if status in (Exit.STUCK, Exit.ABANDONED) or not self._handler_threads_end():
            exit_at_once(status)
        return status

    def _request_stop(self, timeout: float | None = None) -> None:
        # Without a lock: it is called in signal handlers.
        grace = self._worker.config.shutdown_grace if timeout is None else timeout
        self._stop_until = min(self._stop_until, time.monotonic() + grace)
        self._worker.request_stop(timeout)

    def _handler_threads_end(self) -> bool:
        """Wait, as long as the stop may take, for threads that handlers started. Return whether all have ended."""
        others = [thread for thread in threading.enumerate() if not thread.daemon and thread is not _MAIN]
        for thread in others:
            while thread.is_alive() and (left := self._stop_until - time.monotonic()) > 0.0:
                thread.join(min(left, SIGNALS_SEEN_WITHIN))
        names = [thread.name for thread in others if thread.is_alive()]
        if names:
            _log.warning("Threads that handlers started are not waited for any longer: %s", ", ".join(names))
        return not names

    def _run(self) -> int:
        try:
            report = self._worker.run()
        except WorkerCrashed as crash:  # the worker has logged the cause
            if crash.stuck:
                return Exit.STUCK
            if isinstance(crash.__cause__, SchemaMismatch):
                return Exit.USAGE
            return Exit.STORE if isinstance(crash.__cause__, BackendClosed | NotSupported) else Exit.CRASHED
        counts = report.settled, report.released, report.abandoned
        _log.info("Stopped: %d outcomes recorded, %d jobs given back, %d abandoned", *counts)
        return Exit.ABANDONED if report.abandoned else Exit.STOPPED

    # ---- the monitor thread

    def _status(self) -> Status:
        return Status.of(self._worker.health, self._counting.counts)

    def _check(self) -> float:
        status = self._status()
        if self._link is not None:
            self._link.send(status)
        else:
            self._service.report(status, started=status.live, stopping=self._worker.health.stopping)
        if status.live and not self._checked_start:
            self._checked_start = self._check_start()
        reason = self._exit_conditions.reached() if status.live else None
        if reason is not None and not self._worker.health.stopping:
            _log.info("Stopping: %s", reason)
            self._request_stop()
        return _CHECK_EVERY_IN_BURST if self._options.burst else _CHECK_EVERY

    def _check_start(self) -> bool:
        """Log what may be wrong at the start. Return False if the store is unavailable, to repeat the check."""
        setup = self._link.setup if self._link is not None else None
        try:
            if setup is not None and setup.predecessor is not None:
                self._log_jobs_of(setup.predecessor)
            if setup is None or setup.first:
                self._log_unknown_queues()
        except BackendUnavailable:
            return False
        except BackendError as error:  # a damaged queue, for example; the worker runs all the same
            _log.warning("The queues cannot be checked at the start: %s", error)
        return True

    def _log_jobs_of(self, crashed: str) -> None:
        """Log the jobs that a crashed process still holds. They run again after their leases expire."""
        for queue in self._worker.config.queues:
            for job in self._worker.backend.list(queue, JobState.LEASED, limit=_CHECKED_LEASES).jobs:
                if job.lease_owner == crashed:
                    names = printable(crashed), named(job), printable(queue)
                    _log.warning("The crashed worker %s held job %s of queue %s", *names, extra=fields(job))

    def _log_unknown_queues(self) -> None:
        """Log the queues that hold no job of any state: a misspelt name looks like an empty queue."""
        queues = self._worker.config.queues
        if len(queues) <= _CHECKED_QUEUES:
            used = {row.queue for row in self._worker.backend.stats(queues) if any(row.counts.values())}
            if unused := [queue for queue in queues if queue not in used]:
                names = ", ".join(map(printable, unused))
                _log.info("No jobs at the moment in queue %s; if you expect some, check the name", names)


def _log_failure(error: BaseException) -> None:
    if not isinstance(error, BackendError):
        _log.error("The monitor failed and continues", exc_info=error)


class ExitConditions(NopMetrics):
    """
    The conditions of --burst, --max-jobs and --max-memory. The monitor thread checks them regularly.

    This is also one of the worker's metrics: it counts jobs, and calls *on_max_jobs* at the limit, because thousands of
    jobs may run between two checks.
    """

    def __init__(self, worker: Worker, options: WorkerOptions, on_max_jobs: Callable[[], None]) -> None:
        self._worker = worker
        self._options = options
        self._on_max_jobs = on_max_jobs
        self._idle_before = False
        self._uncounted: set[str] = set()  # queues left out of --burst, which were logged
        self._jobs = 0
        self._lock = threading.Lock()  # guards _jobs: every handler thread counts

    def finished(self, job: Job, operation: str, seconds: float) -> None:  # noqa: ARG002 - a hook
        """Count a job whose handler has run."""
        with self._lock:
            self._jobs += 1
            at_limit = self._jobs == self._options.max_jobs
        if at_limit:
            self._on_max_jobs()

    def reached(self) -> str | None:
        """Return the reason why the run should end now, None if it should continue."""
        options = self._options
        # First the conditions that need no store, because the store may be unavailable.
        if options.max_jobs is not None and self._jobs >= options.max_jobs:
            return f"{self._jobs} jobs have run"
        if options.max_memory is not None and (used := _resident_memory() / _MIB) > options.max_memory:
            return f"the process uses {used:.0f} MiB"
        if options.burst and self._drained():
            return "the queues are drained"
        return None

    def _drained(self) -> bool:
        # Nothing held and nothing ready, twice in a row: both may be true for a moment between a promotion and a lease.
        ready = any(row.counts[JobState.READY] for row in self._stats() if not row.paused)
        idle = self._worker.health.held == 0 and not ready
        twice, self._idle_before = idle and self._idle_before, idle
        return twice

    def _stats(self) -> Sequence[QueueStats]:
        """Return the statistics of the queues, except those that cannot be counted, such as damaged ones."""
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
            if not rows:  # no queue can be counted: the store failed
                raise
            return rows


def _resident_memory() -> int:
    """Return the resident memory of this process in bytes, or its peak if the system does not report it."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except (OSError, IndexError, ValueError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def exit_at_once(status: int) -> None:
    """
    Flush logs and streams, and end the process.

    For a process whose threads still run: a normal exit would wait for threads that handlers started.
    """
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):  # None, closed, or a pipe without a reader
            continue
    os._exit(status)
