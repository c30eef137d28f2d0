"""Events that are safe inside signal handlers: one that wakes a loop, and one that stays set."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

SIGNALS_SEEN_WITHIN = 1.0
"""
The longest single wait of the main thread, in seconds, so that every signal is handled.

Python runs signal handlers between two instructions of the main thread. A signal ends a wait, unless it comes when the
thread is about to wait and has already checked for signals; under load that is one signal in a few hundred.
"""


class WakeEvent:
    """
    Event for one waiting thread. A wait clears it. Any thread may set it, also inside a signal handler.

    It is a bare lock, held while the event is not set. `Event.set()` in a signal handler deadlocks when the signal
    arrives inside another set() of the same thread. `SimpleQueue.get()` of Python 3.11 and 3.12 waits for ever when a
    signal arrives as its timeout ends.
    """

    def __init__(self) -> None:
        self._not_set = threading.Lock()
        self._not_set.acquire()

    def set(self) -> None:
        """Wake the waiting thread, now or at its next wait. Change the state that the thread reads first."""
        # If it is already set, the waiting thread still wakes after this call.
        if self._not_set.locked():
            with suppress(RuntimeError):  # another thread has set it in between
                self._not_set.release()

    def wait(self, timeout: float) -> bool:
        """Wait up to *timeout* seconds, which may be inf. Return whether it was set since the last wait."""
        return self._not_set.acquire(timeout=min(max(0.0, timeout), threading.TIMEOUT_MAX))


class Latch:
    """
    Event that stays set. Any number of threads may wait for it, also inside signal handlers.

    Not a `threading.Event`: its `wait` takes a lock that the wait which the signal interrupted may hold.
    """

    def __init__(self) -> None:
        self._set = False
        self._event = WakeEvent()

    def set(self) -> None:
        """Set the event and wake all waiting threads. Thread-safe."""
        self._set = True
        self._event.set()

    def wait(self, timeout: float) -> bool:
        """Wait up to *timeout* seconds. Return whether the event is set."""
        end = time.monotonic() + timeout
        while not self._set and (left := end - time.monotonic()) > 0.0:
            if self._event.wait(min(left, SIGNALS_SEEN_WITHIN)):
                self._event.set()  # for the next waiting thread
        return self._set
