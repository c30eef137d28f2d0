"""Wakes a sleeping loop, and lets waiters through at the end. Both are safe inside signal handlers."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

SIGNALS_SEEN_WITHIN = 1.0
"""
Seconds for which the main thread waits at most in one go, so that every signal is handled.

Python runs signal handlers between two instructions of the main thread. A signal ends a wait, unless it comes when the
thread is about to wait and has looked for signals already; under load that is one signal in a few hundred.
"""


class WakeEvent:
    """
    Any thread rings, also inside a signal handler; one thread waits.

    A bare lock, held while nobody has rung. `Event.set()` in a signal handler deadlocks when the signal arrives inside
    another set() of the same thread, and `SimpleQueue.get()` of Python 3.11 and 3.12 waits for ever when a signal
    arrives as its timeout ends.
    """

    def __init__(self) -> None:
        self._not_set = threading.Lock()
        self._not_set.acquire()

    def set(self) -> None:
        """Wake the waiter now, or at its next wait. Change the state that it looks at first."""
        # Rung and not heard yet is enough: it wakes the waiter after this call too.
        if self._not_set.locked():
            with suppress(RuntimeError):  # another thread has rung in between
                self._not_set.release()

    def wait(self, timeout: float) -> bool:
        """Wait up to *timeout* seconds, which may be inf; True if rung since the last wait."""
        return self._not_set.acquire(timeout=min(max(0.0, timeout), threading.TIMEOUT_MAX))


class Latch:
    """
    Set once, and waited for by any number of threads, also inside a signal handler.

    Not a `threading.Event`: its wait takes a lock that the very wait which the signal interrupted may hold.
    """

    def __init__(self) -> None:
        self._set = False
        self._event = WakeEvent()

    def set(self) -> None:
        """Let all waiters go on, for good. Any thread."""
        self._set = True
        self._event.set()

    def wait(self, timeout: float) -> bool:
        """Wait up to *timeout* seconds; True if set."""
        end = time.monotonic() + timeout
        while not self._set and (left := end - time.monotonic()) > 0.0:
            if self._event.wait(min(left, SIGNALS_SEEN_WITHIN)):
                self._event.set()  # for the next waiter
        return self._set
