"""Wakes the worker's threads when the store has new work."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable

from scheduler.abilities import Waiter, WakeReason

_MOST_FAILURES = 10  # waiters in a row whose descriptors are closed
_PAUSE = 0.1  # seconds before the next waiter is made
_LONGEST_WAIT = 30.0  # seconds: a wait costs nothing, and is interrupted at a stop


class Listener:
    """
    `listen` is the duty of the wake-up thread, which waits on a connection of its own; `interrupt` ends its wait.

    The waiter is made on that thread, so that a store that is away when the worker starts is waited for like at any
    other time. ready: called when jobs may be ready to lease. sooner: when a job may be due sooner than known.
    """

    def __init__(
        self, make_waiter: Callable[[], Waiter], *, ready: Callable[[], None], sooner: Callable[[], None]
    ) -> None:
        self._make_waiter = make_waiter
        self._ready = ready
        self._sooner = sooner
        self._waiter: Waiter | None = None
        self._interrupted = False
        self._failures = 0  # in a row

    def listen(self) -> float:
        """
        Wait until the store has new work, and wake the thread that may sleep too long because of it.

        Only that one: the promoter's call at the same moment would hold up the lease of a job that is ready.
        """
        if self._waiter is None:
            self._waiter = self._make_waiter()
        # Read after the waiter has been made: an `interrupt` before that did not find it.
        try:
            reason = WakeReason.NONE if self._interrupted else self._waiter.wait(_LONGEST_WAIT)
        except OSError as error:
            if error.errno != errno.EBADF or self._failures >= _MOST_FAILURES:
                raise
            # A handler has closed descriptors that are not its own.
            self._failures += 1
            self._replace()
            return _PAUSE
        self._failures = 0
        if WakeReason.JOBS_READY in reason:
            self._ready()
        if WakeReason.EARLIER_DUE_TIME in reason:
            self._sooner()
        return 0.0

    def _replace(self) -> None:
        """Close the waiter and have the next turn make another. Notifications may have been missed."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            with contextlib.suppress(OSError):
                waiter.close()
        self._ready()
        self._sooner()

    def interrupt(self) -> None:
        """Make the present and every later `listen` return at once. Any thread."""
        self._interrupted = True
        waiter = self._waiter  # another thread may replace it
        if waiter is not None:
            waiter.interrupt()

    def close(self) -> None:
        """Close the waiter."""
        if self._waiter is not None:
            self._waiter.close()
