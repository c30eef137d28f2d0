"""One run of a worker from its first thread to its report: who starts whom, and in which order all of it ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from scheduler.backend import Backend, Wakeups
from scheduler.config import WorkerConfig
from scheduler.errors import BackendError, WorkerCrashed
from scheduler.logs import GuardedLogger
from scheduler.metrics import Metrics
from scheduler.serializers import Serializer
from scheduler.worker.doorbell import Doorbell
from scheduler.worker.handlers import Handlers
from scheduler.worker.heartbeat import Heartbeat
from scheduler.worker.inflight import InFlight
from scheduler.worker.listener import Listener
from scheduler.worker.outage import BackOff, Outage, may_pass
from scheduler.worker.pool import BoundedPool
from scheduler.worker.promoter import Promoter
from scheduler.worker.pump import Pump
from scheduler.worker.recoverer import Recoverer
from scheduler.worker.run import Run
from scheduler.worker.runner import JobRunner
from scheduler.worker.ticker import Ticker

_SHARE_OF_GRACE = 4  # at most a quarter of the time is kept for handlers that heed their cancellation
_LOOK = 0.5  # seconds between looks at a deadline that a second stop() may have brought nearer
_LAST_JOIN = 0.05  # seconds for threads that have nothing to do but end


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
    """Made for one run. `work` blocks on the thread that calls it; `request_stop` may be called anywhere."""

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
        self._stopping = False
        self._end: float | None = None  # by time.monotonic(), once a stop was asked for
        self._settling = True
        self._error: BaseException | None = None
        self.doorbell = Doorbell()
        self.outage = Outage(config, metrics, logger)
        run = Run(
            backend=backend,
            config=config,
            doorbell=self.doorbell,
            outage=self.outage,
            metrics=metrics,
            logger=logger,
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
            ring_heartbeat=lambda: self._heartbeat.ring(),  # noqa: PLW0108 - that ticker is made below
        )
        self._pool = BoundedPool(config.concurrency, self._shift, enter)
        self._pump = Pump(run, self.inflight, call_in=self._pool.call_in, stopping=lambda: self._stopping)
        self._heartbeat = self._ticker("heartbeat", Heartbeat(run, self.inflight, self._runner).beat, lasting=True)
        promoter = self._ticker("promote", Promoter(run).promote)
        self._leasing = [promoter, self._ticker("recover", Recoverer(run).recover)]  # those that end first
        if isinstance(backend, Wakeups):
            waiter = backend.waiter(config.queues)
            self._close_waiter = waiter.close
            listener = Listener(waiter, self.doorbell.ring, promoter.ring)
            self._leasing.append(self._ticker("wakeups", listener.listen, interrupt=waiter.interrupt))

    _close_waiter: Callable[[], None] = staticmethod(lambda: None)

    def _ticker(
        self,
        name: str,
        duty: Callable[[], float],
        *,
        interrupt: Callable[[], None] | None = None,
        lasting: bool = False,
    ) -> Ticker:
        return Ticker(f"scheduler-{name}", duty, self._crashed, enter=self._enter, interrupt=interrupt, lasting=lasting)

    # ---- running

    def work(self) -> Report:
        """Work until asked to stop, or until something breaks, which is raised after an orderly end."""
        try:
            for ticker in (self._heartbeat, *self._leasing):
                ticker.start()
            while not self._stopping:
                self._pump.turn()
                self._check_stuck()
        except BaseException as error:  # noqa: BLE001 - raised again after an orderly end
            self._crashed(error)
        try:
            self._wind_down()
        finally:
            self._let_go()
        if self._error is not None:
            if isinstance(self._error, KeyboardInterrupt | WorkerCrashed):
                raise self._error
            raise WorkerCrashed(f"the worker ended because of {type(self._error).__name__}") from self._error
        return Report(settled=self._pump.settled, released=self._pump.released, abandoned=self.inflight.held)

    def request_stop(self, timeout: float | None = None) -> None:
        """Ask for the end within *timeout* seconds (None = shutdown_grace). No lock: callable in a signal handler."""
        end = time.monotonic() + (self._config.shutdown_grace if timeout is None else timeout)
        if self._end is None or end < self._end:
            self._end = end
        self._stopping = True
        self.doorbell.ring()

    @property
    def stopping(self) -> bool:
        """Whether the run is to end."""
        return self._stopping

    def _crashed(self, error: BaseException) -> None:
        # Any service thread, or the pump's. The first error tells most; the rest is logged.
        if self._error is None:
            self._error = error
        if not isinstance(error, KeyboardInterrupt):
            self._logger.error("The worker stops because of a bug or a closed backend", exc_info=error)
        self.request_stop()

    def _check_stuck(self) -> None:
        limit = self._config.stuck_limit
        if limit is not None and (stuck := self.inflight.stuck) >= limit:
            raise WorkerCrashed(f"{stuck} handler threads are stuck past their timeouts", stuck=stuck)

    def _shift(self) -> None:
        # On a pool thread: work off what is buffered. Each job rings the pump, which may be waiting for room.
        try:
            row = self.inflight.begin()
            while row is not None and row.context is not None:
                outcome = self._runner.run(row.lease, row.context)
                row = self.inflight.finish(row, outcome)
                self.doorbell.ring()
        except BaseException as error:  # noqa: BLE001 - a bug of ours: the future's silence would hide it
            self._crashed(error)

    # ---- ending

    def _wind_down(self) -> None:
        for ticker in self._leasing:
            ticker.stop()
        # On a thread of its own, so that a store that does not answer cannot hold the stop beyond its time.
        settler = threading.Thread(target=self._settle_all, name="scheduler-settle", daemon=True)
        settler.start()
        grace = min(self._config.timeout_grace, max(0.0, self._remaining()) / _SHARE_OF_GRACE)
        self._wait_for(settler, reserve=grace)
        if settler.is_alive():
            for context in self.inflight.contexts():
                context.cancel("stopping")
            self._wait_for(settler, reserve=0.0)
        self._settling = False
        self.doorbell.ring()

    def _wait_for(self, settler: threading.Thread, *, reserve: float) -> None:
        while settler.is_alive() and (left := self._remaining() - reserve) > 0.0:
            settler.join(min(left, _LOOK))

    def _remaining(self) -> float:
        end = self._end
        return end - time.monotonic() if end is not None else self._config.shutdown_grace

    def _settle_all(self) -> None:
        """Give back what has not started and record what ends, until nothing is held or the time is up."""
        self._enter()
        back_off = BackOff()
        given_back = False
        while self._settling:
            try:
                if not given_back:
                    given_back = True
                    self._pump.give_back()
                settled = self._pump.settle()
                back_off.reset()
            except BackendError as error:
                if not may_pass(error):
                    break  # closed: nothing more can be recorded
                self.doorbell.wait(back_off.next())
                continue
            except BaseException as error:  # noqa: BLE001 - a bug: tell it, and let the stop go on
                self._crashed(error)
                break
            if not settled:
                if not self.inflight.held:
                    break
                self.doorbell.wait(_LOOK)

    def _let_go(self) -> None:
        self._settling = False
        for ticker in (*self._leasing, self._heartbeat):
            ticker.stop()
        for ticker in (*self._leasing, self._heartbeat):
            ticker.join(max(_LAST_JOIN, min(self._remaining(), self._config.shutdown_grace)))
        self._close_waiter()
        # Waited for only where they have nothing left to do: a stuck thread would keep us for ever.
        self._pool.close(wait=not self.inflight.unfinished and not self.inflight.stuck)
