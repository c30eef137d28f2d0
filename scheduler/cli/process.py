"""One process that runs a worker: alone, or as a supervisor's child."""

from __future__ import annotations

import logging
import math
import threading
import time
from contextlib import ExitStack

from scheduler.cli import signals, systemd
from scheduler.cli.exit_conditions import ExitConditions
from scheduler.cli.exits import Exit, leave
from scheduler.cli.health_port import HealthPort
from scheduler.cli.link import SupervisorLink
from scheduler.cli.options import WorkerOptions
from scheduler.cli.status import Status
from scheduler.cli.target import load_worker
from scheduler.errors import BackendClosed, BackendError, ConfigError, NotSupported, SchemaMismatch, WorkerCrashed
from scheduler.logs import printable
from scheduler.metrics import CountingMetrics, MetricsGroup
from scheduler.states import JobState
from scheduler.worker.log_lines import fields, named
from scheduler.worker.threads import Ticker
from scheduler.worker.wake_event import SIGNALS_SEEN_WITHIN

_log = logging.getLogger(__name__)
_MAIN = threading.main_thread()
_EVERY = 1.0  # seconds between two looks of the monitor
_EVERY_IN_BURST = 0.1
_ASKED = 100  # queues: of more it would not be cheap to ask
_PAGE, _PAGES = 100, 100  # of leased jobs, looked through for those of a dead child


class WorkerProcess:
    """Loads the application's worker, watches it, runs it on the main thread, and says how it ended."""

    def __init__(self, options: WorkerOptions, link: SupervisorLink | None) -> None:
        self._options = options
        self._link = link
        self._counting = CountingMetrics()
        worker = load_worker(options.target)
        if link is not None and link.processes > 1 and worker.backend.in_process:
            raise ConfigError("processes", "each process would have its own jobs: this backend lives in one process")
        # The application's own object, not a copy: its handlers may ask it to stop, or how it is.
        worker.config = worker.with_config(**options.changes()).config
        self._monitor = Ticker("scheduler-monitor", self._look, self._monitor_failed, enter=lambda: None, lasting=True)
        self._exit_conditions = ExitConditions(worker, options, self._monitor.set)
        worker.metrics = MetricsGroup(self._counting, self._exit_conditions, worker.metrics)
        self.worker = worker
        self._told_ready = self._told_stopping = self._told_unseen = False
        self._end = math.inf  # when the stop that was asked for is to be over, by time.monotonic()

    def run(self) -> int:
        """Run to the end and answer the exit status; does not return where a thread would keep the process alive."""
        options = self._options
        signals.install(self._request_stop, options.log_format)
        with ExitStack() as stack:
            if options.health_port is not None and self._link is None:
                port = HealthPort(options.health_host, options.health_port, self._status, metrics=options.metrics)
                stack.enter_context(port)
                _log.info("Health is served on http://%s:%d/ready", options.health_host, port.port)
            if self._link is not None:
                self._link.say_hello(self.worker.config.shutdown_grace)
                self._link.watch(self._request_stop)
            self._monitor.start()
            stack.callback(self._monitor.stop)
            status = self._run()
        if self._link is not None:
            self._link.say_goodbye(status)
        if status in (Exit.STUCK, Exit.ABANDONED) or not self._alone():
            leave(status)
        return status

    def _request_stop(self, timeout: float | None = None) -> None:
        # Without a lock: it is called in signal handlers.
        grace = self.worker.config.shutdown_grace if timeout is None else timeout
        self._end = min(self._end, time.monotonic() + grace)
        self.worker.request_stop(timeout)

    def _alone(self) -> bool:
        """Wait for threads that handlers started and that the interpreter would join, as long as the stop may take."""
        others = [thread for thread in threading.enumerate() if not thread.daemon and thread is not _MAIN]
        for thread in others:
            while thread.is_alive() and (left := self._end - time.monotonic()) > 0.0:
                thread.join(min(left, SIGNALS_SEEN_WITHIN))
        names = [thread.name for thread in others if thread.is_alive()]
        if names:
            _log.warning("Threads that handlers started are not waited for any longer: %s", ", ".join(names))
        return not names

    def _run(self) -> int:
        try:
            report = self.worker.run()
        except WorkerCrashed as crash:  # the worker has logged what it ended because of
            if crash.stuck:
                return Exit.STUCK
            if isinstance(crash.__cause__, SchemaMismatch):
                return Exit.USAGE
            return Exit.STORE if isinstance(crash.__cause__, BackendClosed | NotSupported) else Exit.CRASHED
        _log.info(
            "Stopped: %d outcomes recorded, %d jobs given back, %d abandoned",
            report.settled,
            report.released,
            report.abandoned,
        )
        return Exit.ABANDONED if report.abandoned else Exit.STOPPED

    # ---- the monitor thread

    def _status(self) -> Status:
        return Status.of(self.worker.health, self._counting.counts)

    def _look(self) -> float:
        status = self._status()
        if self._link is not None:
            self._link.send(status)
        else:
            self._tell_systemd(status)
        if status.live and self._link is not None and self._link.predecessor is not None:
            self._tell_of(self._link.predecessor)
            self._link.predecessor = None
        if status.live and not self._told_unseen:
            self._told_unseen = True
            if self._link is None or self._link.first:
                self._tell_of_unseen_queues()
        reason = self._exit_conditions.reached() if status.live else None
        if reason is not None and not self.worker.health.stopping:
            _log.info("Stopping: %s", reason)
            self._request_stop()
        return _EVERY_IN_BURST if self._options.burst else _EVERY

    def _tell_systemd(self, status: Status) -> None:
        if status.live and not self._told_ready:
            self._told_ready = systemd.notify("READY=1")
        if self.worker.health.stopping and not self._told_stopping:
            self._told_stopping = True
            systemd.notify("STOPPING=1")
        systemd.notify("WATCHDOG=1", f"STATUS={status.held} jobs held, {status.stuck} threads stuck")

    def _tell_of(self, predecessor: str) -> None:
        """Log which jobs a dead child still holds: they run again when its leases run out."""
        backend = self.worker.backend
        for queue in self.worker.config.queues:
            cursor = None
            for _ in range(_PAGES):
                page = backend.list(queue, JobState.LEASED, limit=_PAGE, cursor=cursor)
                for job in page.jobs:
                    if job.lease_owner == predecessor:
                        _log.warning(
                            "The dead worker %s held job %s of queue %s",
                            printable(predecessor),
                            named(job),
                            printable(queue),
                            extra=fields(job),
                        )
                if (cursor := page.cursor) is None:
                    break

    def _tell_of_unseen_queues(self) -> None:
        """A mistyped name is served like any other: say which queues hold no job of any state."""
        queues = self.worker.config.queues
        if len(queues) <= _ASKED:
            used = {row.queue for row in self.worker.backend.stats(queues) if any(row.counts.values())}
            if unseen := [queue for queue in queues if queue not in used]:
                _log.info("The store has no job of queue %s: is the name right?", ", ".join(map(printable, unseen)))

    def _monitor_failed(self, error: BaseException) -> None:
        if not isinstance(error, BackendError):
            _log.error("The monitor failed and goes on", exc_info=error)


def run_worker_process(options: WorkerOptions, link: SupervisorLink | None) -> int:
    """Run a worker in this process and answer its exit status. Errors of the configuration pass through."""
    return WorkerProcess(options, link).run()
