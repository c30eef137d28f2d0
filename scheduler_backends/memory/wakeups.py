"""Waiters: who waits for news of which queues."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue

from scheduler.abilities import WakeReason
from scheduler.errors import BackendClosed
from scheduler.limits import check_number
from scheduler.processes import PerProcess


class MemoryWaiter:
    """
    Waits on a signal of its own, never on the backend's lock.

    The signal is a SimpleQueue, whose put is safe in a signal handler; a Condition's notify is not. Whatever is in it
    ends a wait, and `_news`, set first, says whether there was a reason.
    """

    def __init__(self, registry: WaiterRegistry, queues: Sequence[str]) -> None:
        self.queues = tuple(queues)
        self._registry = registry
        # The parent's signal may be in the hands of a thread that does not exist in a child.
        self._own_signals: PerProcess[SimpleQueue[None]] = PerProcess()
        self._news = self._closed = False

    def wait(self, timeout: float) -> WakeReason:
        """
        Wait up to *timeout* seconds for news of the queues. NONE at once after `close()`.

        Raises `BackendClosed` when begun after the backend was closed.
        """
        seconds = check_number("timeout", timeout)
        if self._registry.closed:
            raise BackendClosed("the backend was closed")
        if self._closed:
            return WakeReason.NONE
        signal = self._own_signals.get(SimpleQueue)
        with suppress(Empty):
            if not self._news:
                signal.get(timeout=seconds)
            while True:
                signal.get_nowait()
        # Never cleared where it was not seen: news may come between these lines, and is then for the next wait.
        if self._news:
            self._news = False
            return WakeReason.ANY
        return WakeReason.NONE

    def notify(self) -> None:
        """There is news."""
        self._news = True
        self.interrupt()

    def interrupt(self) -> None:
        """End the present or next wait. From any thread or signal handler."""
        signal = self._own_signals.get(SimpleQueue)
        if signal.empty():  # else it rings already
            signal.put(None)

    def close(self) -> None:
        """End the present wait and all later ones."""
        self._closed = True
        self._registry.remove(self)
        self.interrupt()


class WaiterRegistry:
    """
    All waiters of a backend, by queue. Rung under the backend's lock.

    The own lock guards changes of the table; it is re-entrant for finalisers that close a waiter.
    """

    def __init__(self) -> None:
        self.closed = False
        self._locks: PerProcess[threading.RLock] = PerProcess()
        self._waiters: dict[str, tuple[MemoryWaiter, ...]] = {}

    def waiter(self, queues: Sequence[str]) -> MemoryWaiter:
        """A waiter that hears of *queues* from now on."""
        waiter = MemoryWaiter(self, queues)
        with self._locks.get(threading.RLock):
            for queue in waiter.queues:
                self._waiters[queue] = (*self._waiters.get(queue, ()), waiter)
        return waiter

    def remove(self, waiter: MemoryWaiter) -> None:
        """*waiter* hears no more."""
        with self._locks.get(threading.RLock):
            for queue in waiter.queues:
                left = tuple(other for other in self._waiters.get(queue, ()) if other is not waiter)
                if left:
                    self._waiters[queue] = left
                else:
                    self._waiters.pop(queue, None)

    def notify(self, queues: Iterable[str]) -> None:
        """There is news of *queues*."""
        for queue in queues:
            for waiter in self._waiters.get(queue, ()):
                waiter.notify()

    def close(self) -> None:
        """End every wait, for good."""
        self.closed = True
        for waiter in self._all():
            waiter.interrupt()

    def _all(self) -> set[MemoryWaiter]:
        with self._locks.get(threading.RLock):
            return {waiter for waiters in self._waiters.values() for waiter in waiters}
