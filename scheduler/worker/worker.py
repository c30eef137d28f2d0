"""The class `Worker`."""

from __future__ import annotations

import dataclasses
import logging
import math
import os
import threading
from collections.abc import Callable
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
from scheduler.worker.threads import Background, Run

Function = TypeVar("Function", bound=HandlerFunction)


class Worker:
    """
    A worker, which leases jobs of its queues, runs their handlers in a thread pool and records the outcomes.

    A worker has at most one run at a time. After a run has ended, it can run again, also with new values of its
    attributes `config` and `metrics`. It installs no signal handlers.

    Args:
        backend: The store. The worker does not close it.
        config: Queues, threads and times. None means `WorkerConfig()`.
        serializer: Decodes payloads and encodes results. None means JSON.
        metrics: Hooks that observe jobs and calls to the store. Exceptions that they raise are logged and dropped.
        logger: None means the logger "scheduler.worker".
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
        # Also called in a forked child: the parent's run does not continue there, and its locks may stay locked.
        self._pid = os.getpid()
        self._starting = threading.Lock()  # guards the step from not running to running
        self._own = OwnThreads()
        self._lifecycle: Lifecycle | None = None
        self._stop_timeout: float | None = None  # timeout of a stop that was requested before the run
        self._background: Background | None = None

    # ---- handlers

    def handler(
        self, job_type: str, *, retry_policy: Delays | None = None, interrupt: bool = False
    ) -> Callable[[Function], Function]:
        """
        Return a decorator that registers a function as the handler of *job_type*.

        It returns the function unchanged. Arguments and errors are those of `handle`.
        """
        if not isinstance(job_type, str):
            raise InvalidHandler(
                'the decorator needs the job type, as in @worker.handler("email.send"), '
                f"not an argument of type {type(job_type).__name__}"
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
        """
        Register *function* as the handler of *job_type*.

        Args:
            job_type: Type of the jobs that the function handles.
            function: Called as `function(job, ctx)`, on several threads at once.
            retry_policy: For jobs without a retry policy of their own. None means the one in the configuration.
            interrupt: Whether to raise `JobInterrupted` in the handler's thread when its context is cancelled.

        Raises:
            DuplicateHandler: The type already has a handler.
            InvalidHandler: The function does not take two arguments, or is a coroutine or generator function.
            ConfigError: Another argument is invalid.
        """
        self._handlers.register(job_type, Handler(function=function, retry_policy=retry_policy, interrupt=interrupt))

    def with_config(self, **changes: object) -> Worker:
        """Return a new worker that shares the handlers of this one. Its configuration differs by *changes*."""
        unknown = [name for name in changes if name not in self.config.__dataclass_fields__]
        if unknown:
            raise ConfigError(unknown[0], "is not a field of WorkerConfig")
        config = dataclasses.replace(self.config, **changes)  # type: ignore[arg-type]  # the config checks them
        other = Worker(
            self.backend, config, serializer=self._serializer, metrics=self.metrics, logger=self._plain_logger
        )
        other._handlers = self._handlers
        return other

    # ---- running

    def run(self) -> Report:
        """
        Run until a stop is requested, and return a report. The calling thread only waits.

        After the request the run ends within `shutdown_grace`, unless the request set another time.

        Raises `WorkerCrashed` if an error ended the run, such as a bug, a closed store or too many stuck handlers, and
        `KeyboardInterrupt` after Ctrl-C; both after an orderly end.
        """
        return self._work(self._begin())

    def _begin(self) -> Lifecycle:
        if self._pid != os.getpid():
            self._forget_run()
        with self._starting:
            if self._lifecycle is not None:
                raise SchedulerError("this worker is already running; it can have one run at a time")
            run, runner = self._new_run(self.backend)
            self._lifecycle = lifecycle = Lifecycle(run, runner, self._own)
        log_start(self._logger, self.config, self._handlers.types, self.backend)
        return lifecycle

    def _new_run(self, backend: Backend) -> tuple[Run, JobRunner]:
        """Return the shared state of a run on *backend*, and the runner of this worker's handlers."""
        run = Run(backend, self.config, guarded(self.metrics, self._logger), self._logger)
        return run, JobRunner(run, self._handlers, self._serializer)

    def _work(self, lifecycle: Lifecycle) -> Report:
        self._own.enter()
        try:
            if (timeout := self._stop_timeout) is not None:  # requested before the run began, or while it began
                lifecycle.shutdown.request(timeout)
            lifecycle.shutdown.begin()
            return lifecycle.work()
        finally:
            self._own.entered = False
            self._stop_timeout = None
            self._lifecycle = None
            lifecycle.shutdown.finish()

    def _here(self) -> Lifecycle | None:
        """Return the lifecycle of the run in this process. None if there is no run, as in a forked child."""
        return self._lifecycle if self._pid == os.getpid() else None

    def request_stop(self, timeout: float | None = None) -> None:
        """
        Request that the current run, or else the next one, ends within *timeout* seconds. Returns at once.

        None means `shutdown_grace`, inf means after the last handler has returned. A later call can only shorten the
        time. Safe to call on any thread, also inside handlers and signal handlers.
        """
        seconds = self._seconds(timeout, at_most=math.inf)
        lifecycle = self._here()
        if lifecycle is None:
            self._stop_timeout = seconds if self._stop_timeout is None else min(seconds, self._stop_timeout)
            lifecycle = self._here()  # a run that began in between may have read the request too early
        if lifecycle is not None:
            lifecycle.shutdown.request(seconds)

    def stop(self, timeout: float | None = None) -> bool:
        """
        Request that the run ends within *timeout* seconds, and wait for its end. Return whether it has ended.

        None means `shutdown_grace`. On the worker's own threads, as in a handler or in a signal handler during `run`,
        the call does not wait and returns False. If there is no run, it returns True. Unlike `request_stop`, it does
        not affect the next run.
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
        """The current state of the worker. Thread-safe."""
        return Health() if (lifecycle := self._here()) is None else lifecycle.health

    # ---- in the background

    def start(self) -> None:
        """Start a run on a daemon thread. It ends at `stop`, or when the interpreter exits."""
        lifecycle = self._begin()
        self._background = background = Background(lambda: self._work(lifecycle))
        try:
            background.start()
        except RuntimeError:  # the system refuses another thread
            self._lifecycle = None
            raise

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        """Stop within `shutdown_grace`. Raise the error of the run, unless the block raised one itself."""
        self.stop()
        background, self._background = self._background, None
        if background is not None and not self._own.entered:
            background.join(END_MARGIN)
            if error is None and background.error is not None:
                raise background.error
