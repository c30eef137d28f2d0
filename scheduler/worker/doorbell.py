"""Wakes a sleeping loop."""

from __future__ import annotations

from queue import Empty, SimpleQueue


class Doorbell:
    """
    Any thread rings, also inside a signal handler; one thread waits.

    A `SimpleQueue`, since its put() is reentrant: `Event.set()` in a signal handler deadlocks when the signal
    arrives inside another set() of the same thread.
    """

    def __init__(self) -> None:
        self._rings: SimpleQueue[None] = SimpleQueue()

    def ring(self) -> None:
        """Wake the waiter now, or at its next wait. Change the state that it looks at first."""
        # A ring that is still there wakes the waiter after this call too, so one is enough and rings stay bounded.
        if self._rings.empty():
            self._rings.put(None)

    def wait(self, timeout: float) -> bool:
        """Wait up to *timeout* seconds; True if rung since the last wait."""
        try:
            self._rings.get(timeout=max(0.0, timeout))
        except Empty:
            return False
        # Emptied before the caller looks at the state: who rings later has changed it later.
        while not self._rings.empty():
            self._rings.get()
        return True
