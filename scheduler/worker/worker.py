"""The public class of this package."""

from __future__ import annotations

import dataclasses
import logging
import math
import os
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

from scheduler.backend import Backend
from scheduler.config import WorkerConfig
from scheduler.errors import ConfigError, InvalidHandler, SchedulerError
from scheduler.limits import MAX_DELAY, check_kind, check_number
from scheduler.logs import GuardedLogger
from scheduler.metrics import Metrics, NopMetrics, guarded
from scheduler.retry import Delays
from scheduler.serializers import JsonSerializer, Serializer
from scheduler.worker.handlers import Handler, HandlerFunction, Handlers
from scheduler.worker.lifecycle import Health, Lifecycle, Report
from scheduler.worker.log_lines import log_start
from scheduler.worker.runner import JobRunner
from scheduler.worker.shutdown import END_MARGIN, OwnThreads
from scheduler.worker.threads import Background

Function = TypeVar("Function", bound=HandlerFunction)


class Worker:
    """
    Leases jobs of its queues, runs their handlers in a bounded thread pool, and records their outcomes.

    It runs at most once at a time. It may run again after it stopped, with another `config` or `metrics`. It installs
    no signal handlers.

    Args:
        backend: The store. The worker does not close it.
        config: Queues, threads, times; None = `WorkerConfig()`.
        serializer: Decodes `ctx.data` and encodes results; None = JSON.
        metrics: Its hooks observe jobs and calls. What they raise is logged and dropped.
        logger: None = "scheduler.worker".
    """

    def __init__(
        self,
        backend: Backend,
        config: WorkerConfig | None = None,
        *,
        serializer: Serializer | None = None,
        metrics: Metrics | None = None,
        logger: logging.Logger | None = None,
    ) -> None:
        self.backend = backend
        self.config = WorkerConfig() if config is None else config
        self.metrics = NopMetrics() if metrics is None else metrics
        self._serializer = JsonSerializer() if serializer is None else serializer
        check_kind("backend", backend, Backend)
        check_kind("config", self.config, WorkerConfig)
        check_kind("serializer", self._serializer, Serializer)
        check_kind("metrics", self.metrics, Metrics)
        self._plain_logger = logging.getLogger("scheduler.worker") if logger is None else logger
        check_kind("logger", self._plain_logger, logging.Logger, logging.LoggerAdapter)
        self._logger = GuardedLogger(self._plain_logger)
        self._handlers = Handlers()
        self._forget_run()

    def _forget_run(self) -> None:
        # Also called after a fork: the parent's run does not go on here, and its locks may be held for ever.
        self._pid = os.getpid()
        self._starting = threading.Lock()  # guards the step from not running to running
        self._own = OwnThreads()
        self._lifecycle: Lifecycle | None = None
        self._asked: float | None = None  # seconds of a stop that was asked for before the run began
        self._background: Background | None = None

    # ---- handlers

    def handler(
        self, job_type: str, *, retry_policy: Delays | None = None, interrupt: bool = False
    ) -> Callable[[Function], Function]:
        """
        Decorate the function that handles *job_type*. The function itself is not changed.

        It is called as handler(job, ctx), on several threads at a time. retry_policy: for jobs that have none; None =
        the worker's. interrupt: when the job is cancelled, also raise `JobInterrupted` in its thread. Raises
        `DuplicateHandler`, or `InvalidHandler` for coroutine and generator functions.
        """
        if not isinstance(job_type, str):
            raise InvalidHandler(
                'the decorator takes the job type: write @worker.handler("email.send"), '
                f"not one of type {type(job_type).__name__} or a function alone"
            )

        def register(function: Function) -> Function:
            self.handle(job_type, function, retry_policy=retry_policy, interrupt=interrupt)
            return function

        return register

    def handle(
        self,
        job_type: str,
        function: HandlerFunction,
        *,
        retry_policy: Delays | None = None,
        interrupt: bool = False,
    ) -> None:
        """Register *function* for *job_type*, as the decorator `handler` does."""
        self._handlers.register(job_type, Handler(function=function, retry_policy=retry_policy, interrupt=interrupt))

    def with_config(self, **changes: object) -> Worker:
        """Return a new worker with the same handlers, whose configuration differs by *changes*."""
        unknown = [name for name in changes if name not in self.config.__dataclass_fields__]
        if unknown:
            raise ConfigError(unknown[0], "is no field of WorkerConfig")
        config = dataclasses.replace(self.config, **changes)  # type: ignore[arg-type]  # the config checks them
        other = Worker(
            self.backend, config, serializer=self._serializer, metrics=self.metrics, logger=self._plain_logger
        )
        other._handlers = self._handlers
        return other

    # ---- running

    def run(self) -> Report:
        """
        Work until a stop is requested, end within the grace, and return a report. The calling thread only waits.

        Raises `WorkerCrashed` if one of the worker's own threads died of a bug or too many handlers are stuck, and
        KeyboardInterrupt after a Ctrl-C, both after an orderly end.
        """
        return self._work(self._begin())

    def _begin(self) -> Lifecycle:
        if self._pid != os.getpid():
            self._forget_run()
        with self._starting:
            if self._lifecycle is not None:
                raise SchedulerError("this worker is running already; one worker runs once at a time")
            metrics = guarded(self.metrics, self._logger)
            self._lifecycle = lifecycle = Lifecycle(
                self.backend,
                self.config,
                self._runner(self.backend, metrics),
                metrics=metrics,
                logger=self._logger,
                own_threads=self._own,
            )
        log_start(self._logger, self.config, self._handlers.types, self.backend)
        return lifecycle

    def _runner(self, backend: Backend, metrics: Metrics) -> JobRunner:
        """Return what runs this worker's handlers on jobs of *backend*."""
        return JobRunner(
            self._handlers,
            self.config,
            serializer=self._serializer,
            keep_results=backend.retention.succeeded > 0.0,
            metrics=metrics,
            logger=self._logger,
        )

    def _work(self, lifecycle: Lifecycle) -> Report:
        self._own.enter()
        try:
            if (asked := self._asked) is not None:  # before the run began, or while it began
                lifecycle.shutdown.request(asked)
            lifecycle.shutdown.begin()
            return lifecycle.work()
        finally:
            self._own.entered = False
            self._asked = None
            self._lifecycle = None
            lifecycle.shutdown.finish()

    def _here(self) -> Lifecycle | None:
        """Return the lifecycle of the run in this process, None if there is none, as in the child of a fork."""
        return self._lifecycle if self._pid == os.getpid() else None

    def request_stop(self, timeout: float | None = None) -> None:
        """
        Ask the present (or next) run to end within *timeout* seconds. Returns at once. May be called anywhere.

        None = shutdown_grace; inf = when the last handler has returned. A later call can only shorten the time.
        """
        seconds = self._seconds(timeout, at_most=math.inf)
        lifecycle = self._here()
        if lifecycle is None:
            self._asked = seconds if self._asked is None else min(seconds, self._asked)
            lifecycle = self._here()  # a run that began meanwhile may have looked too soon
        if lifecycle is not None:
            lifecycle.shutdown.request(seconds)

    def stop(self, timeout: float | None = None) -> bool:
        """
        Ask the run to end within *timeout* seconds (None = shutdown_grace), and wait for it. Returns whether it ended.

        On the worker's own threads, so also in a handler or in a signal handler during run(), it only asks and returns
        False. If nothing runs it returns True and, unlike `request_stop`, does not affect the next run.
        """
        seconds = self._seconds(timeout)
        lifecycle = self._here()
        if lifecycle is None:
            return True
        lifecycle.shutdown.request(seconds)
        if self._own.entered:
            return False
        return lifecycle.shutdown.wait(seconds)

    def _seconds(self, timeout: float | None, *, at_most: float = MAX_DELAY) -> float:
        return self.config.shutdown_grace if timeout is None else check_number("timeout", timeout, at_most=at_most)

    @property
    def running(self) -> bool:
        """Whether a run is under way in this process."""
        return self._here() is not None

    @property
    def health(self) -> Health:
        """The worker's state now. Any thread."""
        return Health() if (lifecycle := self._here()) is None else lifecycle.health

    # ---- in the background

    def start(self) -> None:
        """Run on a daemon thread of its own, until `stop` or the exit of the interpreter ends it."""
        lifecycle = self._begin()
        self._background = background = Background(lambda: self._work(lifecycle))
        try:
            background.start()
        except RuntimeError:  # the system allows this process no more threads
            self._lifecycle = None
            raise

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop within shutdown_grace. Raises what the run raised, unless the block raised too."""
        self.stop()
        background, self._background = self._background, None
        if background is not None and not self._own.entered:
            background.join(END_MARGIN)
            if error is None and background.error is not None:
                raise background.error
