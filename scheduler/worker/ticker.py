"""A thread that does one duty again and again."""

from __future__ import annotations

import threading
from collections.abc import Callable

from scheduler.worker.outage import BackOff, is_transient
from scheduler.worker.wake_event import WakeEvent


class Ticker:
    """
    Calls `duty`, which answers the seconds until its next turn, until `stop()`.

    A store that is away is waited for, with back-off, for ever. Any other error is a bug: it goes to `crashed` and
    ends the thread, unless `lasting`, which goes on for as long as it is needed. `enter` is called once, on the thread;
    `interrupt` by stop(), to end a duty that waits elsewhere. Daemon threads: an exiting interpreter does not wait.
    """

    def __init__(
        self,
        name: str,
        duty: Callable[[], float],
        crashed: Callable[[BaseException], None],
        *,
        enter: Callable[[], None],
        interrupt: Callable[[], None] | None = None,
        lasting: bool = False,
    ) -> None:
        self._duty = duty
        self._crashed = crashed
        self._enter = enter
        self._interrupt = interrupt
        self._lasting = lasting
        self._wake_event = WakeEvent()
        self._stopping = False
        self._back_off = BackOff()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread; the first turn comes at once."""
        self._thread.start()

    def set(self) -> None:
        """Have the next turn now. Any thread."""
        self._wake_event.set()

    def stop(self) -> None:
        """Ask the thread to end after the turn under way. Any thread."""
        self._stopping = True
        self._wake_event.set()
        if self._interrupt is not None:
            try:
                self._interrupt()
            except BaseException as error:  # noqa: BLE001 - the others are to be stopped as well
                self._crashed(error)

    def join(self, timeout: float) -> bool:
        """Wait for the end up to *timeout* seconds; True if it has come. A thread never started counts as ended."""
        if self._thread.ident is None:
            return True
        self._thread.join(max(0.0, timeout))
        return not self._thread.is_alive()

    @property
    def ident(self) -> int | None:
        """The thread's identifier, None before it started."""
        return self._thread.ident

    def _run(self) -> None:
        self._enter()
        while not self._stopping:
            try:
                pause = self._duty()
                self._back_off.reset()
            except BaseException as error:  # noqa: BLE001 - a service thread must not vanish, whatever was raised
                if not is_transient(error):
                    self._crashed(error)
                    if not self._lasting:
                        return
                pause = self._back_off.next()
            if pause > 0.0 and not self._stopping:
                self._wake_event.wait(pause)
