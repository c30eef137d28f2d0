"""One run of a worker from its first thread to its report: who starts whom, and in which order all of it ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from scheduler.abilities import Wakeups
from scheduler.backend import Backend
from scheduler.config import WorkerConfig
from scheduler.errors import BackendClosed, NotSupported, SchemaMismatch, WorkerCrashed
from scheduler.logs import GuardedLogger, printable
from scheduler.metrics import Metrics
from scheduler.serializers import Serializer
from scheduler.worker.deadlines import Deadlines
from scheduler.worker.handlers import Handlers
from scheduler.worker.heartbeat import Heartbeat
from scheduler.worker.inflight import InFlight
from scheduler.worker.listener import Listener
from scheduler.worker.maintenance import Promoter, Recoverer
from scheduler.worker.outage import Outage
from scheduler.worker.outcome import describe, summary
from scheduler.worker.pool import BoundedPool
from scheduler.worker.pump import Pump
from scheduler.worker.pump_thread import PumpThread
from scheduler.worker.run import Run
from scheduler.worker.runner import JobRunner
from scheduler.worker.shutdown_request import ShutdownRequest
from scheduler.worker.ticker import Ticker
from scheduler.worker.wake_event import SIGNALS_SEEN_WITHIN, Latch, WakeEvent

LAST_JOIN = 0.25  # seconds beyond the end of the time, for threads that have nothing to do but end


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """
    What a run did. settled: outcomes recorded. released: jobs given back unstarted or at the stop.

    abandoned: jobs still held when the time was up; they come back when their leases run out.
    """

    settled: int
    released: int
    abandoned: int


class Session:
    """
    Made for one run. `work` blocks on the thread that calls it.

    That thread only waits: no store can hold up the end by not answering, and a Ctrl-C interrupts nothing but the wait.
    `ending.ask` may be called anywhere; `over` is set when all has ended.
    """

    def __init__(
        self,
        backend: Backend,
        config: WorkerConfig,
        handlers: Handlers,
        *,
        serializer: Serializer,
        metrics: Metrics,
        logger: GuardedLogger,
        enter: Callable[[], None],
    ) -> None:
        self._config = config
        self._logger = logger
        self._enter = enter
        self._error: BaseException | None = None
        self._woken = WakeEvent()  # for the thread in work()
        wake_event = WakeEvent()  # for the pump
        self.ending = ShutdownRequest(config.timeout_grace, wake_event.set, self._woken.set)
        self.outage = Outage(config, metrics, logger, self._crashed)
        self.over = Latch()
        run = Run(
            backend=backend, config=config, wake_event=wake_event, outage=self.outage, metrics=metrics, logger=logger
        )
        self._runner = JobRunner(
            handlers,
            config,
            serializer=serializer,
            keep_results=backend.retention.succeeded > 0.0,
            metrics=metrics,
            logger=logger,
        )
        self.inflight = InFlight(
            config,
            open_context=self._runner.open,
            wake_deadlines=lambda: self._deadlines.set(),  # noqa: PLW0108 - that ticker is made below
        )
        self._wake_event = wake_event
        self._pool = BoundedPool(config.concurrency, self._shift, enter)
        self._pump = Pump(run, self.inflight, wake_threads=self._pool.wake_threads, stopping=lambda: self.ending.asked)
        self._pump_thread = PumpThread(
            self._pump,
            self.inflight,
            config,
            wake_event=wake_event,
            ending=self.ending,
            enter=enter,
            crashed=self._crashed,
            ended=self._woken.set,
        )
        # Two threads: a renewal may wait for the store, and no deadline may wait with it.
        self._heartbeat = self._ticker("heartbeat", Heartbeat(run, self.inflight).beat, lasting=True)
        self._deadlines = self._ticker("deadlines", Deadlines(run, self.inflight, self._runner).watch, lasting=True)
        promoter = Promoter(run)
        promoting = self._ticker("promote", promoter.promote)
        self._leasing = [promoting, self._ticker("recover", Recoverer(run).recover)]  # those that end first
        self._listener: Listener | None = None
        self._listening: Ticker | None = None
        if isinstance(backend, Wakeups):

            def sooner() -> None:
                promoter.sooner()
                promoting.set()

            make_waiter = partial(backend.waiter, config.queues)
            self._listener = listener = Listener(make_waiter, ready=wake_event.set, sooner=sooner)
            self._listening = self._ticker("wakeups", listener.listen, interrupt=listener.interrupt)
            self._leasing.append(self._listening)

    def _ticker(
        self,
        name: str,
        duty: Callable[[], float],
        *,
        interrupt: Callable[[], None] | None = None,
        lasting: bool = False,
    ) -> Ticker:
        return Ticker(f"scheduler-{name}", duty, self._crashed, enter=self._enter, interrupt=interrupt, lasting=lasting)

    def ask_to_end(self) -> None:
        """As a stop with the configured grace. Any thread."""
        self.ending.request(self._config.shutdown_grace)

    def wait_for_end(self) -> None:
        """Wait for what `ask_to_end` asked for. Any thread but the run's own."""
        self.over.wait(self._config.shutdown_grace + 2 * LAST_JOIN)

    # ---- the thread that runs the worker

    def work(self) -> Report:
        """Work until asked to stop, or until something breaks, which is raised after an orderly end."""
        interrupted: KeyboardInterrupt | None = None
        try:
            try:
                self._wait_for_wish()
            except KeyboardInterrupt as error:
                interrupted = error
                self.ending.request(self._config.shutdown_grace)
            self._wind_down()
        finally:
            self._let_go()
        if self._error is not None:
            if issubclass(type(self._error), WorkerCrashed):
                raise self._error
            raise WorkerCrashed(f"the worker ended because of {type(self._error).__name__}") from self._error
        if interrupted is not None:
            raise interrupted
        return Report(settled=self._pump.settled, released=self._pump.released, abandoned=self.inflight.held)

    def _wait_for_wish(self) -> None:
        try:
            for ticker in (self._heartbeat, self._deadlines, *self._leasing):
                ticker.start()
            self._pump_thread.start()
        except RuntimeError as error:  # the system lets this process have no more threads
            self._crashed(error)
        while not self.ending.asked:
            self._woken.wait(SIGNALS_SEEN_WITHIN)

    def _wind_down(self) -> None:
        for ticker in self._leasing:
            ticker.stop()
        self.inflight.start_no_more()
        self._wake_event.set()
        while self._pump_thread.running and (left := self.ending.until_cancel):
            self._woken.wait(min(left, SIGNALS_SEEN_WITHIN))
        self._cancel_handlers()
        while self._pump_thread.running and (left := self.ending.until_end):
            self._woken.wait(min(left, SIGNALS_SEEN_WITHIN))

    def _cancel_handlers(self) -> None:
        for row in self.inflight.started:
            if row.context is not None:
                row.context.cancel("stopping")
        self._deadlines.set()  # handlers may have to be interrupted

    def _let_go(self) -> None:
        self._cancel_handlers()
        self._pump_thread.give_up()
        tickers = (*self._leasing, self._heartbeat, self._deadlines)
        for ticker in tickers:
            ticker.stop()
        # A store that does not answer may hold them up: they end when it does.
        last = time.monotonic() + max(LAST_JOIN, min(self.ending.until_end, self._config.shutdown_grace))
        self._pump_thread.join(last - time.monotonic())
        lasting = [ticker for ticker in tickers if not ticker.join(last - time.monotonic())]
        # Waited for only where they have nothing left to do: a stuck thread would keep us for ever.
        self._pool.close(wait=not self.inflight.unfinished and not self.inflight.stuck)
        try:
            # Left alone where its thread still waits, for that would have to be waited for. It goes with the backend.
            if self._listener is not None and self._listening not in lasting:
                self._listener.close()
        except Exception as error:  # noqa: BLE001 - a handler may have closed its descriptor; what ended the run is told
            self._logger.warning("The wake-ups could not be closed: %s", error)

    # ---- the other threads

    def _crashed(self, error: BaseException) -> None:
        first = self._error
        if first is None:
            self._error = error
        if type(first) is not type(error):  # the heartbeat may fail of the same again and again, until the end
            # What its message says all of, such as a missing schema, needs no traceback.
            plain = isinstance(error, BackendClosed | NotSupported | SchemaMismatch | WorkerCrashed)
            reason = printable(summary(describe(error)))
            self._logger.error("The worker stops: %s", reason, exc_info=None if plain else error)
        # Into a closed backend nothing can be recorded: there is no sense in letting handlers work on for long.
        closed = issubclass(type(error), BackendClosed)
        self.ending.request(self._config.timeout_grace if closed else self._config.shutdown_grace)

    def _shift(self) -> None:
        # On a pool thread: work off what is buffered. Each job rings the pump, which may be waiting for room.
        try:
            row = self.inflight.begin()
            while row is not None and row.context is not None:
                outcome = self._runner.run(row.lease, row.context)
                row = self.inflight.finish(row, outcome)
                self._wake_event.set()
        except BaseException as error:  # noqa: BLE001 - a bug of ours: the future's silence would hide it
            self._crashed(error)
