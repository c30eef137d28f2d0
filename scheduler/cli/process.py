"""One process that runs a worker, by itself or under a supervisor."""

from __future__ import annotations

import logging
import math
import threading
import time
from contextlib import ExitStack

from scheduler.cli import signals
from scheduler.cli.exits import Exit, ExitConditions, exit_at_once
from scheduler.cli.health_port import serve_health
from scheduler.cli.options import WorkerOptions
from scheduler.cli.protocol import Exiting, Running, Status, SupervisorLink
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
from scheduler.logs import printable
from scheduler.metrics import CountingMetrics, MetricsGroup
from scheduler.states import JobState
from scheduler.worker.log_lines import fields, named
from scheduler.worker.threads import Ticker
from scheduler.worker.wake_event import SIGNALS_SEEN_WITHIN

_log = logging.getLogger(__name__)
_MAIN = threading.main_thread()
_CHECK_EVERY = 1.0  # seconds between two checks of the monitor
_CHECK_EVERY_IN_BURST = 0.1
_CHECKED_QUEUES = 100  # statistics of more queues would not be cheap
_CHECKED_LEASES = 1_000  # of each queue, searched for those of a crashed process


class WorkerProcess:
    """Loads the application's worker, monitors it, and runs it on the main thread."""

    def __init__(self, options: WorkerOptions, link: SupervisorLink | None) -> None:
        self._options = options
        self._link = link
        self._counting = CountingMetrics()
        worker = load_worker(options.target)
        if link is not None and options.processes > 1 and worker.backend.in_process:
            raise ConfigError("processes", "each process would have its own jobs: this backend lives in one process")
        # The application's own object, not a copy: its handlers may call its methods.
        worker.config = worker.with_config(**options.changes()).config
        self._monitor = Ticker("scheduler-monitor", self._check, _log_failure, enter=lambda: None, lasting=True)
        self._exit_conditions = ExitConditions(worker, options, self._monitor.set)
        worker.metrics = MetricsGroup(self._counting, self._exit_conditions, worker.metrics)
        self._worker = worker
        self._service = ServiceManager()
        self._checked_start = False
        self._stop_until = math.inf  # when the requested stop is to be over, by time.monotonic()

    def run(self) -> int:
        """Run to the end and return the exit status. Does not return if a thread would keep the process alive."""
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
        """Wait, as long as the stop may take, for threads that handlers started and the interpreter would join."""
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
        """Log what may be wrong at the start. False while the store is away: to be repeated."""
        setup = self._link.setup if self._link is not None else None
        try:
            if setup is not None and setup.predecessor is not None:
                self._log_jobs_of(setup.predecessor)
            if setup is None or setup.first:
                self._log_unknown_queues()
        except BackendUnavailable:
            return False
        except BackendError as error:  # such as of a queue whose records are damaged; the other checks go on
            _log.warning("The queues cannot be checked at the start: %s", error)
        return True

    def _log_jobs_of(self, crashed: str) -> None:
        """Log the jobs that a crashed process still holds. They run again when their leases expire."""
        for queue in self._worker.config.queues:
            for job in self._worker.backend.list(queue, JobState.LEASED, limit=_CHECKED_LEASES).jobs:
                if job.lease_owner == crashed:
                    names = printable(crashed), named(job), printable(queue)
                    _log.warning("The crashed worker %s held job %s of queue %s", *names, extra=fields(job))

    def _log_unknown_queues(self) -> None:
        """Log which queues have no job of any state: a misspelt name is served like any other."""
        queues = self._worker.config.queues
        if len(queues) <= _CHECKED_QUEUES:
            used = {row.queue for row in self._worker.backend.stats(queues) if any(row.counts.values())}
            if unused := [queue for queue in queues if queue not in used]:
                _log.info("The store has no job of queue %s: is the name right?", ", ".join(map(printable, unused)))


def _log_failure(error: BaseException) -> None:
    if not isinstance(error, BackendError):
        _log.error("The monitor failed and goes on", exc_info=error)
