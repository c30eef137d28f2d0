"""One run of a worker from its first thread to its report: who starts what, and in which order all of it ends."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from functools import partial

from scheduler.abilities import Wakeups
from scheduler.backend import Backend
from scheduler.config import WorkerConfig
from scheduler.errors import WorkerCrashed
from scheduler.logs import GuardedLogger
from scheduler.metrics import Metrics
from scheduler.worker.deadlines import Deadlines
from scheduler.worker.heartbeat import Heartbeat
from scheduler.worker.inflight import InFlight
from scheduler.worker.listener import Listener
from scheduler.worker.maintenance import Promoter, Recoverer
from scheduler.worker.outage import Outage
from scheduler.worker.pump import Pump
from scheduler.worker.runner import JobRunner
from scheduler.worker.shutdown import LAST_JOIN, OwnThreads, Shutdown
from scheduler.worker.threads import BoundedPool, Run, Ticker
from scheduler.worker.wake_event import SIGNALS_SEEN_WITHIN, WakeEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The state of a worker now, for probes and dashboards. Without arguments: of one that does not run."""

    running: bool = False
    """Whether a run is under way in this process."""
    stopping: bool = False
    """Whether that run is to end."""
    leasing: bool = False
    """Whether the worker would take another job."""
    held: int = 0
    """Jobs that it holds, also those whose outcome is not recorded yet."""
    stuck: int = 0
    """Handler threads that do not return."""
    outage: float = 0.0
    """Seconds for which no call to the store has succeeded; 0.0 = the last one did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a run did."""

    settled: int
    """Outcomes that were recorded."""
    released: int
    """Jobs given back, because they had not started or were interrupted by the stop."""
    abandoned: int
    """Jobs still held when the time was up; they come back when their leases expire."""


class Lifecycle:
    """
    One run. `work` blocks on the thread that calls it.

    That thread only waits: no store can hold up the end by not returning, and a Ctrl-C interrupts nothing but the wait.
    """

    def __init__(
        self,
        backend: Backend,
        config: WorkerConfig,
        runner: JobRunner,
        *,
        metrics: Metrics,
        logger: GuardedLogger,
        own_threads: OwnThreads,
    ) -> None:
        self._config = config
        self._logger = logger
        self._own_threads = own_threads
        self._woken = WakeEvent()  # for the thread in work()
        self._wake_event = wake_event = WakeEvent()  # for the pump
        self.shutdown = shutdown = Shutdown(config, logger, wake_event.set, self._woken.set)
        self._outage = outage = Outage(config, metrics, logger, shutdown)
        run = Run(
            backend=backend,
            config=config,
            wake_event=wake_event,
            shutdown=shutdown,
            outage=outage,
            metrics=metrics,
            logger=logger,
        )
        self._runner = runner
        deadline_set = WakeEvent()
        self.inflight = InFlight(config, open_context=runner.open, wake_deadlines=deadline_set.set)
        self._pool = BoundedPool(config.concurrency, self._shift, own_threads.enter)
        self._pump = Pump(run, self.inflight, wake_threads=self._pool.wake_threads)
        self._pump_thread = threading.Thread(target=self._work_pump, name="scheduler-pump", daemon=True)
        self._pump_ended = False

        ticker = partial(Ticker, crashed=shutdown.crashed, enter=own_threads.enter)
        # Two threads: a renewal may wait for the store, and no deadline may wait with it.
        self._heartbeat = ticker("scheduler-heartbeat", Heartbeat(run, self.inflight).beat, lasting=True)
        deadlines = Deadlines(run, self.inflight, runner)
        self._deadlines = ticker("scheduler-deadlines", deadlines.watch, wake_event=deadline_set, lasting=True)
        promoter = Promoter(run)
        self._leasing = [  # those that end first
            ticker("scheduler-promote", promoter.promote, wake_event=promoter.wake_event),
            ticker("scheduler-recover", Recoverer(run).recover),
        ]
        self._listener: Listener | None = None
        self._listening: Ticker | None = None
        if isinstance(backend, Wakeups):
            make_waiter = partial(backend.waiter, config.queues)
            self._listener = listener = Listener(make_waiter, ready=wake_event.set, sooner=promoter.sooner)
            self._listening = ticker("scheduler-wakeups", listener.listen, interrupt=listener.interrupt)
            self._leasing.append(self._listening)

    @property
    def health(self) -> Health:
        """The state of the run now. Any thread."""
        stopping = self.shutdown.requested
        return Health(
            running=True,
            stopping=stopping,
            leasing=not stopping and self.inflight.room() > 0,
            held=self.inflight.held,
            stuck=self.inflight.stuck,
            outage=self._outage.seconds,
        )

    # ---- the thread that runs the worker

    def work(self) -> Report:
        """Work until asked to stop, or until something breaks, which is raised after an orderly end."""
        interrupted: KeyboardInterrupt | None = None
        try:
            try:
                self._wait_for_request()
            except KeyboardInterrupt as error:
                interrupted = error
                self.shutdown.request()
            self._wind_down()
        finally:
            self._let_go()
        if (crash := self.shutdown.error) is not None:
            if issubclass(type(crash), WorkerCrashed):
                raise crash
            raise WorkerCrashed(f"the worker ended because of {type(crash).__name__}") from crash
        if interrupted is not None:
            raise interrupted
        return Report(settled=self._pump.settled, released=self._pump.released, abandoned=self.inflight.held)

    def _wait_for_request(self) -> None:
        try:
            for ticker in (self._heartbeat, self._deadlines, *self._leasing):
                ticker.start()
            self._pump_thread.start()
        except RuntimeError as error:  # the system allows this process no more threads
            self.shutdown.crashed(error)
        while not self.shutdown.requested:
            self._woken.wait(SIGNALS_SEEN_WITHIN)

    def _wind_down(self) -> None:
        for ticker in self._leasing:
            ticker.stop()
        self.inflight.start_no_more()
        self._wake_event.set()
        while self._pumping and (left := self.shutdown.until_cancel):
            self._woken.wait(min(left, SIGNALS_SEEN_WITHIN))
        self._cancel_handlers()
        while self._pumping and (left := self.shutdown.until_end):
            self._woken.wait(min(left, SIGNALS_SEEN_WITHIN))

    def _cancel_handlers(self) -> None:
        for held in self.inflight.started:
            if held.context is not None:
                held.context.cancel("stopping")
        self._deadlines.set()  # handlers may have to be interrupted

    def _let_go(self) -> None:
        self._cancel_handlers()
        self.shutdown.given_up = True
        self._wake_event.set()
        tickers = (*self._leasing, self._heartbeat, self._deadlines)
        for ticker in tickers:
            ticker.stop()
        # A store that does not return may hold these threads up. They end when it returns.
        last = time.monotonic() + max(LAST_JOIN, min(self.shutdown.until_end, self._config.shutdown_grace))
        if self._pump_thread.ident is not None:  # else it was never started
            self._pump_thread.join(max(0.0, last - time.monotonic()))
        lasting = [ticker for ticker in tickers if not ticker.join(last - time.monotonic())]
        # Its threads are waited for only if they have nothing left to do: a stuck one would block this for ever.
        self._pool.close(wait=not self.inflight.unfinished and not self.inflight.stuck)
        try:
            # Not closed if its thread still waits in it: close would wait for that. The backend closes it then.
            if self._listener is not None and self._listening not in lasting:
                self._listener.close()
        except Exception as error:  # noqa: BLE001 - a handler may have closed its descriptor; the run's own error is raised
            self._logger.warning("The wake-ups could not be closed: %s", error)

    # ---- the other threads

    @property
    def _pumping(self) -> bool:
        """Whether the pump has something left to do. False when its end wakes `work`, though the thread may live."""
        return self._pump_thread.ident is not None and not self._pump_ended

    def _work_pump(self) -> None:
        """
        Take turns until a stop is requested, then record outcomes until nothing is held.

        Ends by itself, or once the time is up, as soon as the store returns from the call under way.
        """
        self._own_threads.enter()
        try:
            while not self.shutdown.requested:
                self._pump.turn()
                self._check_stuck()
        except BaseException as error:  # noqa: BLE001 - the run ends in order and raises it
            self.shutdown.crashed(error)
        try:
            self._pump.settle_all()
        except BaseException as error:  # noqa: BLE001 - as above
            self.shutdown.crashed(error)
            # Nothing can be recorded any more: there is no sense in letting handlers work on for long.
            self.shutdown.request(self._config.timeout_grace)
            while self.inflight.unfinished and not self.shutdown.given_up:
                self._wake_event.wait(threading.TIMEOUT_MAX)
        self._pump_ended = True
        self._woken.set()

    def _check_stuck(self) -> None:
        limit = self._config.stuck_limit
        if limit is not None and (stuck := self.inflight.stuck) >= limit:
            raise WorkerCrashed(f"{stuck} handler threads are stuck past their timeouts", stuck=stuck)

    def _shift(self) -> None:
        # On a pool thread: run jobs until none is buffered. Each wakes the pump, which may wait for a free place.
        try:
            held = self.inflight.begin()
            while held is not None and held.context is not None:
                outcome = self._runner.run(held.lease, held.context)
                held = self.inflight.finish(held, outcome)
                self._wake_event.set()
        except BaseException as error:  # noqa: BLE001 - a bug of ours must not end the thread unreported
            self.shutdown.crashed(error)
