"""The thread that the pump works on, from the start of a run to its end."""

from __future__ import annotations

import threading
from collections.abc import Callable

from scheduler.config import WorkerConfig
from scheduler.errors import BackendError, WorkerCrashed
from scheduler.worker.inflight import InFlight
from scheduler.worker.outage import BackOff, is_transient
from scheduler.worker.pump import Pump
from scheduler.worker.shutdown_request import ShutdownRequest
from scheduler.worker.wake_event import WakeEvent

_LAST_TRIES = 5  # some three seconds of back-off


class PumpThread:
    """
    Takes turns until the run is asked to end, then records what ends until nothing is held.

    It ends by itself, or after `give_up()`, as soon as the store returns from the call under way. What it cannot go on
    after goes to `crashed`; `ended` is called last.
    """

    def __init__(
        self,
        pump: Pump,
        inflight: InFlight,
        config: WorkerConfig,
        *,
        wake_event: WakeEvent,
        ending: ShutdownRequest,
        enter: Callable[[], None],
        crashed: Callable[[BaseException], None],
        ended: Callable[[], None],
    ) -> None:
        self._pump = pump
        self._inflight = inflight
        self._config = config
        self._wake_event = wake_event
        self._ending = ending
        self._enter = enter
        self._crashed = crashed
        self._ended = ended
        self._given_up = self._over = False
        self._thread = threading.Thread(target=self._run, name="scheduler-pump", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether it has something to do still. False when `ended` is called, though the thread may be alive yet."""
        return self._thread.ident is not None and not self._over

    def give_up(self) -> None:
        """The time is up: record no more. Any thread."""
        self._given_up = True
        self._wake_event.set()

    def join(self, timeout: float) -> None:
        """Wait for the end up to *timeout* seconds. A thread never started counts as ended."""
        if self._thread.ident is not None:
            self._thread.join(max(0.0, timeout))

    def _run(self) -> None:
        self._enter()
        try:
            while not self._ending.asked:
                self._pump.turn()
                self._check_stuck()
        except BaseException as error:  # noqa: BLE001 - the run ends in order and raises it
            self._crashed(error)
        try:
            self._settle_all()
        except BaseException as error:  # noqa: BLE001 - as above
            self._crashed(error)
            self._wait_for_handlers()
        self._over = True
        self._ended()

    def _check_stuck(self) -> None:
        limit = self._config.stuck_limit
        if limit is not None and (stuck := self._inflight.stuck) >= limit:
            raise WorkerCrashed(f"{stuck} handler threads are stuck past their timeouts", stuck=stuck)

    def _settle_all(self) -> None:
        """Record what ends, and what is given back, until nothing is held or the time is up: then once more."""
        back_off = BackOff()
        failures = 0
        while True:
            try:
                busy = self._pump.settle() or self._pump.give_back()
                back_off.reset()
                failures = 0
                pause = threading.TIMEOUT_MAX
            except BackendError as error:
                if not is_transient(error):
                    raise
                busy = False
                failures += 1
                pause = back_off.next()
            if busy:
                continue
            # What a lease call without an answer may have taken comes back by itself: not worth all of the grace.
            doubt = self._pump.in_doubt and failures < _LAST_TRIES
            if self._given_up or not (self._inflight.held or doubt):
                return
            self._wake_event.wait(pause)

    def _wait_for_handlers(self) -> None:
        """Nothing can be recorded any more: there is no sense in letting handlers work on for long."""
        self._ending.request(self._config.timeout_grace)
        while self._inflight.unfinished and not self._given_up:
            self._wake_event.wait(threading.TIMEOUT_MAX)
