"""The worker, as a program uses it."""

from __future__ import annotations

import dataclasses
import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar

from scheduler.backend import Backend
from scheduler.config import WorkerConfig
from scheduler.errors import ConfigError, SchedulerError
from scheduler.limits import check_number
from scheduler.logs import GuardedLogger
from scheduler.metrics import Metrics, NopMetrics, guarded
from scheduler.retry import Delays
from scheduler.serializers import JsonSerializer, Serializer
from scheduler.worker.handlers import Handler, HandlerFunction, Handlers
from scheduler.worker.session import Report, Session

Function = TypeVar("Function", bound=HandlerFunction)
_MARGIN = 0.25  # seconds that stop() waits beyond its timeout for the run to report


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """
    How a worker is now. leasing: whether it would take another job. held: jobs it holds, unsent outcomes included.

    stuck: handler threads that do not return. outage: seconds for which the store has not answered, 0.0 = it does.
    """

    running: bool
    stopping: bool
    leasing: bool
    held: int
    stuck: int
    outage: float


class Worker:
    """
    Leases jobs of its queues, runs their handlers in a bounded thread pool, and records what became of them.

    serializer: decodes `ctx.data` and encodes results. logger: None = "scheduler.worker". One run at a time; a worker
    may run again after it stopped. Installs no signal handlers.
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
        if not isinstance(backend, Backend):
            raise ConfigError("backend", f"must be a scheduler.Backend, not {type(backend).__name__}")
        self.backend = backend
        self.config = config or WorkerConfig()
        self._serializer = serializer or JsonSerializer()
        self._plain_logger = logger or logging.getLogger("scheduler.worker")
        self._logger = GuardedLogger(self._plain_logger)
        self.metrics = metrics or NopMetrics()
        self._metrics = guarded(self.metrics, self._logger)
        self._handlers = Handlers()
        self._own = threading.local()  # has `entered` on the threads of a run
        self._pid = 0
        self._starting = threading.Lock()  # guards the step from not running to running
        self._session: Session | None = None
        self._stop_asked = False
        self._ended = threading.Event()
        self._background: threading.Thread | None = None
        self._background_error: BaseException | None = None

    # ---- handlers

    def handler(
        self, job_type: str, *, retry_policy: Delays | None = None, interrupt: bool = False
    ) -> Callable[[Function], Function]:
        """
        Decorate the function that handles *job_type*; it stays callable as it is.

        It is called as handler(job, ctx), several at a time. retry_policy: where the job brings none; None = the
        worker's. interrupt: when the job is cancelled, also raise `JobInterrupted` in its thread. Raises
        `DuplicateHandler`, or `InvalidHandler` for coroutine and generator functions.
        """

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
        """A new worker with the same handlers, whose configuration differs by *changes*."""
        try:
            config = dataclasses.replace(self.config, **changes)  # type: ignore[arg-type]  # the config checks them
        except TypeError as error:
            raise ConfigError(next(iter(changes), "config"), str(error)) from None
        return self._copy(config, self.metrics)

    def with_metrics(self, metrics: Metrics) -> Worker:
        """A new worker with the same handlers and configuration that tells *metrics* instead."""
        return self._copy(self.config, metrics)

    def _copy(self, config: WorkerConfig, metrics: Metrics) -> Worker:
        other = Worker(self.backend, config, serializer=self._serializer, metrics=metrics, logger=self._plain_logger)
        other._handlers = self._handlers
        return other

    # ---- running

    def run(self) -> Report:
        """
        Work on this thread until asked to stop, then end within the grace and report.

        Raises `WorkerCrashed` when one of the worker's own threads died of a bug or too many handlers are stuck, and
        KeyboardInterrupt after a Ctrl-C, both after an orderly end.
        """
        return self._work(self._begin())

    def _work(self, session: Session) -> Report:
        try:
            if self._stop_asked:  # before the run began, or while it did
                session.request_stop()
            return session.work()
        finally:
            self._own.entered = False
            self._stop_asked = False
            self._session = None
            self._ended.set()

    def _begin(self) -> Session:
        if self._pid != os.getpid():  # a fork leaves the parent's session and maybe a held lock behind
            self._starting, self._session, self._pid = threading.Lock(), None, os.getpid()
            self._background = None
        with self._starting:
            if self._session is not None:
                raise SchedulerError("this worker is running already; one worker runs once at a time")
            self._enter()
            self._ended.clear()
            self._session = session = Session(
                self.backend,
                self.config,
                self._handlers,
                serializer=self._serializer,
                metrics=self._metrics,
                logger=self._logger,
                enter=self._enter,
            )
        if not len(self._handlers):
            self._logger.warning("This worker has no handlers: every job will wait for another one")
        return session

    def _enter(self) -> None:
        self._own.entered = True

    def _here(self) -> Session | None:
        """The session of a run in this process; a fork's child has none."""
        return self._session if self._pid == os.getpid() else None

    def request_stop(self, timeout: float | None = None) -> None:
        """
        Ask the present (or next) run to end within *timeout* seconds. Returns at once; callable anywhere.

        None = shutdown_grace; inf = when the last handler has returned. A later call may only shorten the time.
        """
        self._stop_asked = True
        session = self._here()
        if session is not None:
            session.request_stop(timeout)

    def stop(self, timeout: float | None = None) -> bool:
        """
        Ask the run to end within *timeout* seconds (None = shutdown_grace), wait for that, and tell whether it has.

        On the worker's own threads, so also inside a handler or a signal handler during run(), it only asks.
        """
        seconds = self.config.shutdown_grace if timeout is None else check_number("timeout", timeout)
        session = self._here()
        if session is None:
            return True
        session.request_stop(seconds)
        if getattr(self._own, "entered", False):
            return False
        return self._ended.wait(seconds + _MARGIN)

    @property
    def running(self) -> bool:
        """Whether a run is under way in this process."""
        return self._here() is not None

    @property
    def health(self) -> Health:
        """How the worker is now. Any thread."""
        session = self._here()
        if session is None:
            return Health(running=False, stopping=False, leasing=False, held=0, stuck=0, outage=0.0)
        return Health(
            running=True,
            stopping=session.stopping,
            leasing=not session.stopping and session.inflight.room() > 0,
            held=session.inflight.held,
            stuck=session.inflight.stuck,
            outage=session.outage.seconds,
        )

    # ---- in the background

    def start(self) -> None:
        """Run on a thread of its own, which `stop` ends. Returns when the run has begun, or raises why it has not."""
        begun = threading.Event()

        def background() -> None:
            try:
                session = self._begin()
            except BaseException as error:  # noqa: BLE001 - raised by start()
                self._background_error = error
                return
            finally:
                begun.set()
            try:
                self._work(session)
            except BaseException as error:  # noqa: BLE001 - raised at the end of the with block
                self._background_error = error

        self._background_error = None
        thread = threading.Thread(target=background, name="scheduler-worker", daemon=True)
        thread.start()
        begun.wait()
        self._raise_background_error()
        self._background = thread

    def _raise_background_error(self) -> None:
        error, self._background_error = self._background_error, None
        if error is not None:
            raise error

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
        if self._background is not None and self._background is not threading.current_thread():
            self._background.join(_MARGIN)
            self._background = None
        if error is None:
            self._raise_background_error()
