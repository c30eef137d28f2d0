"""The open waiters of a backend."""

from __future__ import annotations

import threading

from scheduler.abilities import Waiter
from scheduler.processes import PerProcess


class WaiterRegistry:
    """Closes the waiters of this process with their backend. Those of a parent process belong to the parent."""

    def __init__(self) -> None:
        self.closed = False
        self._own: PerProcess[_Open] = PerProcess()

    def add(self, waiter: Waiter) -> None:
        """Close *waiter* when the backend is closed."""
        own = self._own.get(_Open)
        with own.lock:
            own.waiters += (waiter,)

    def remove(self, waiter: Waiter) -> None:
        """Forget *waiter*, which is closed."""
        own = self._own.get(_Open)
        with own.lock:
            own.waiters = tuple(other for other in own.waiters if other is not waiter)

    def close(self) -> None:
        """End every wait, for good."""
        self.closed = True
        for waiter in self._own.get(_Open).waiters:
            waiter.close()


class _Open:
    """The waiters of one process."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # guards changes of waiters, a tuple that is replaced; re-entrant for finalisers
        self.waiters: tuple[Waiter, ...] = ()
