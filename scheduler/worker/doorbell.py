"""Wakes a sleeping loop."""

from __future__ import annotations

import threading
import time
from queue import Empty, SimpleQueue

SIGNALS_SEEN_WITHIN = 1.0
"""
Seconds for which the main thread waits at most in one go, so that every signal is handled.

Python runs signal handlers between two instructions of the main thread. A signal ends a wait, unless it comes when the
thread is about to wait and has looked for signals already; under load that is one signal in a few hundred.
"""


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
        """Wait up to *timeout* seconds, which may be inf; True if rung since the last wait."""
        try:
            self._rings.get(timeout=min(max(0.0, timeout), threading.TIMEOUT_MAX))
        except Empty:
            return False
        # Emptied before the caller looks at the state: who rings later has changed it later.
        while not self._rings.empty():
            self._rings.get()
        return True


class Latch:
    """
    Set once, and waited for by any number of threads, also inside a signal handler.

    Not a `threading.Event`: its wait takes a lock that the very wait which the signal interrupted may hold.
    """

    def __init__(self) -> None:
        self._set = False
        self._passes: SimpleQueue[None] = SimpleQueue()

    def set(self) -> None:
        """Let all waiters go on, for good. Any thread."""
        self._set = True
        self._passes.put(None)

    def wait(self, timeout: float) -> bool:
        """Wait up to *timeout* seconds; True if set."""
        end = time.monotonic() + timeout
        while not self._set:
            left = end - time.monotonic()
            if left <= 0.0:
                return False
            try:
                self._passes.get(timeout=min(left, SIGNALS_SEEN_WITHIN))
            except Empty:
                continue
            self._passes.put(None)  # for the next waiter
        return True
