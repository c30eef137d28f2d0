"""One run of a worker: the threads that it starts, and the order in which they end."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import partial

from scheduler.abilities import Wakeups
from scheduler.errors import WorkerCrashed
from scheduler.worker.deadlines import Deadlines
from scheduler.worker.inflight import InFlight
from scheduler.worker.listener import Listener
from scheduler.worker.maintenance import Heartbeat, Promoter, Recoverer
from scheduler.worker.pump import Pump
from scheduler.worker.runner import JobRunner
from scheduler.worker.shutdown import LAST_JOIN, OwnThreads
from scheduler.worker.threads import BoundedPool, Run, Ticker
from scheduler.worker.wake_event import SIGNALS_SEEN_WITHIN, WakeEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """State of a worker at one moment, for probes and dashboards. `Health()` is that of a worker without a run."""

    running: bool = False
    """Whether a run is under way in this process."""
    stopping: bool = False
    """Whether that run was requested to end."""
    leasing: bool = False
    """Whether the worker would lease another job now."""
    held: int = 0
    """Jobs that the worker holds, including those whose outcome is not recorded yet."""
    stuck: int = 0
    """Handler threads that have not returned in time."""
    outage: float = 0.0
    """Seconds since the last successful call to the store. 0.0 if the last call succeeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Summary of a run that has ended."""

    settled: int
    """Outcomes that were recorded."""
    released: int
    """Jobs given back without using up an attempt, because they had not started or were interrupted by the stop."""
    abandoned: int
    """Jobs still held when the time was up. They run again after their leases expire."""


class Lifecycle:
    """
    One run of a worker. `work` blocks the thread that calls it.

    That thread only waits. So a call to the store that does not return cannot delay the end of the run, and Ctrl-C
    interrupts only the wait.
    """

    def __init__(self, run: Run, runner: JobRunner, own_threads: OwnThreads) -> None:
        self._run = run
        self.shutdown = run.shutdown
        config, crashed, enter = run.config, run.shutdown.crashed, own_threads.enter
        deadline_set = WakeEvent()
        self.inflight = inflight = InFlight(config, open_context=runner.open, wake_deadlines=deadline_set.set)
        shift = partial(runner.shift, inflight, run.wake_event.set)
        self._pool = BoundedPool(config.concurrency, shift, crashed, enter=enter)
        self._pump = Pump(run, inflight, wake_threads=self._pool.wake_threads)
        self._pump_ended = False

        ticker = partial(Ticker, crashed=crashed, enter=enter)
        # Two threads, because a renewal may wait for the store, and deadlines must not wait with it.
        self._heartbeat = ticker(
            name="scheduler-heartbeat",
            duty=Heartbeat(run, inflight).beat,
            lasting=True,
            longest_back_off=config.heartbeat_interval,
        )
        watch = Deadlines(run, inflight, runner).watch
        self._deadlines = ticker(name="scheduler-deadlines", duty=watch, wake_event=deadline_set, lasting=True)
        turn, settle_all = self._pump.turn, self._settle_all
        self._pumping = ticker(name="scheduler-pump", duty=turn, wake_event=run.wake_event, at_end=settle_all)
        promoter = Promoter(run)
        self._leasing = [  # threads that end first
            ticker(name="scheduler-promote", duty=promoter.promote, wake_event=promoter.wake_event),
            ticker(name="scheduler-recover", duty=Recoverer(run).recover),
        ]
        if isinstance(run.backend, Wakeups):
            make_waiter = partial(run.backend.waiter, config.queues)
            listener = Listener(run, make_waiter, sooner=promoter.sooner)
            interrupt, close = listener.interrupt, listener.close
            listening = ticker(name="scheduler-wakeups", duty=listener.listen, interrupt=interrupt, at_end=close)
            self._leasing.append(listening)
        self._leasing.append(self._pumping)

    @property
    def health(self) -> Health:
        """The current state of the run. Thread-safe."""
        stopping = self.shutdown.requested
        return Health(
            running=True,
            stopping=stopping,
            leasing=not stopping and self.inflight.free_capacity() > 0,
            held=self.inflight.held,
            stuck=self.inflight.stuck,
            outage=self._run.outage.seconds,
        )

    # ---- the thread that runs the worker

    def work(self) -> Report:
        """Run until a stop is requested or an error ends the run. Raise that error after an orderly end."""
        interrupted: KeyboardInterrupt | None = None
        try:
            try:
                self._wait_for_request()
            except KeyboardInterrupt as error:
                interrupted = error
                self.shutdown.request()
            self._wind_down()
        finally:
            self._close()
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
        except RuntimeError as error:  # the system refuses another thread
            self.shutdown.crashed(error)
        while not self.shutdown.requested:
            self._run.woken.wait(SIGNALS_SEEN_WITHIN)

    def _wind_down(self) -> None:
        self.inflight.start_no_more()
        for ticker in self._leasing:
            ticker.stop()
        while self._is_pumping and (left := self.shutdown.until_cancel):
            self._run.woken.wait(min(left, SIGNALS_SEEN_WITHIN))
        self._cancel_handlers()
        while self._is_pumping and (left := self.shutdown.until_end):
            self._run.woken.wait(min(left, SIGNALS_SEEN_WITHIN))

    @property
    def _is_pumping(self) -> bool:
        """Whether the pump has work left. False once it has ended, although its thread may still be alive."""
        return not self._pump_ended and not self._pumping.join(0.0)

    def _cancel_handlers(self) -> None:
        for held in self.inflight.started:
            if held.context is not None:
                held.context.cancel("stopping")
        self._deadlines.set()  # handlers may have to be interrupted

    def _close(self) -> None:
        self._cancel_handlers()
        self.shutdown.given_up = True
        tickers = (*self._leasing, self._heartbeat, self._deadlines)
        for ticker in tickers:
            ticker.stop()
        # A call to the store that does not return may delay these threads. They end when it returns.
        last = time.monotonic() + max(LAST_JOIN, min(self.shutdown.until_end, self._run.config.shutdown_grace))
        for ticker in tickers:
            ticker.join(last - time.monotonic())
        # Wait for the pool's threads only if they have nothing left to do: a stuck one would block this for ever.
        self._pool.close(wait=not self.inflight.unfinished and not self.inflight.stuck)

    # ---- the pump's thread

    def _settle_all(self) -> None:
        """
        Record outcomes until nothing is held or the time is up.

        A call to the store that is under way delays the end until it returns.
        """
        try:
            self._pump.settle_all()
        except BaseException as error:  # noqa: BLE001 - the run raises it after an orderly end
            self.shutdown.crashed(error)
            # Nothing can be recorded any more, so handlers get only a short time.
            self.shutdown.request(self._run.config.timeout_grace)
            while self.inflight.unfinished and not self.shutdown.given_up:
                self._run.wake_event.wait(math.inf)
        self._pump_ended = True
        self._run.woken.set()
