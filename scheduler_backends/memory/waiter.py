"""Waiters of the memory backend, for the ability Wakeups."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue

from scheduler.abilities import WakeReason
from scheduler.errors import BackendClosed
from scheduler.limits import check_number
from scheduler.processes import PerProcess


class MemoryWaiter:
    """
    Waiter on its own signal, never on the store's lock.

    The signal is a SimpleQueue, whose put is safe in a signal handler; a Condition's notify is not. An item in it ends
    a wait. `_is_notified` is set before and shows whether it was a notification or only an interrupt.

    The waiter adds itself to *waiters*, the open waiters of its backend. That set has no lock, which might be held when
    a finaliser closes a waiter: adding, discarding and copying are single steps of the interpreter.
    """

    def __init__(self, waiters: set[MemoryWaiter], queues: Sequence[str]) -> None:
        self.queues = frozenset(queues)
        self._waiters = waiters
        # One per process: a thread that does not exist in a forked child may hold the parent's signal.
        self._signals: PerProcess[SimpleQueue[None]] = PerProcess()
        self._is_notified = self._closed = self._failed = False
        waiters.add(self)

    def wait(self, timeout: float) -> WakeReason:
        """
        Wait up to *timeout* seconds for work in the queues. Returns NONE at once after `close()`.

        Raises `BackendClosed` if the backend was closed before.
        """
        seconds = check_number("timeout", timeout)
        if self._failed:
            raise BackendClosed("the backend was closed")
        if self._closed:
            return WakeReason.NONE
        signal = self._signals.get(SimpleQueue)
        with suppress(Empty):
            if not self._is_notified:
                signal.get(timeout=seconds)
            while True:
                signal.get_nowait()
        # Cleared only if it was seen, so that a later notification is left for the next wait.
        if self._is_notified:
            self._is_notified = False
            return WakeReason.ANY
        return WakeReason.NONE

    def notify(self) -> None:
        """End the current or next wait with ANY."""
        self._is_notified = True
        self.interrupt()

    def interrupt(self) -> None:
        """End the current or next wait. May be called from any thread or signal handler."""
        signal = self._signals.get(SimpleQueue)
        if signal.empty():  # one item is enough
            signal.put(None)

    def close(self) -> None:
        """End the current wait and all later ones."""
        self._closed = True
        self._waiters.discard(self)
        self.interrupt()

    def fail(self) -> None:
        """End the current wait, and make later ones raise `BackendClosed`."""
        self._failed = True
        self.interrupt()
