"""Wake-ups of the worker's threads by notifications of the store."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable

from scheduler.abilities import Waiter, WakeReason
from scheduler.worker.threads import Run

_MOST_FAILURES = 10  # waiters in a row with a closed descriptor; after one more the error is raised
_PAUSE = 0.1  # seconds before the next waiter is created
_LONGEST_WAIT = 30.0  # seconds; a long wait costs nothing, and a stop interrupts it


class Listener:
    """
    Listener for notifications of the store. `listen` is the duty of the wake-up thread; `interrupt` ends its wait.

    The waiter has its own connection. It is created and closed on that thread. So a store that is unavailable when the
    worker starts is retried as at any other time, and a waiter that does not return delays no other thread.

    sooner: called when a job may be due earlier than known.
    """

    def __init__(self, run: Run, make_waiter: Callable[[], Waiter], *, sooner: Callable[[], None]) -> None:
        self._run = run
        self._make_waiter = make_waiter
        self._sooner = sooner
        self._waiter: Waiter | None = None
        self._interrupted = False
        self._failures = 0  # in a row

    def listen(self) -> float:
        """
        Wait until the store has new work, and wake the thread that it is for.

        A ready job wakes only the pump: a call of the promoter at the same moment would delay the lease of that job.
        """
        if self._waiter is None:
            self._waiter = self._make_waiter()
        # `_interrupted` is read after the waiter was created: an earlier `interrupt` did not find a waiter.
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
            self._run.wake_event.set()
        if WakeReason.EARLIER_DUE_TIME in reason:
            self._sooner()
        return 0.0

    def _replace(self) -> None:
        """Close the waiter, so that the next call creates another. Wake both threads: notifications may be lost."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            with contextlib.suppress(OSError):
                waiter.close()
        self._run.wake_event.set()
        self._sooner()

    def interrupt(self) -> None:
        """Make the current and every later `listen` return at once. Thread-safe."""
        self._interrupted = True
        waiter = self._waiter  # another thread may replace it
        if waiter is not None:
            waiter.interrupt()

    def close(self) -> None:
        """Close the waiter. Never raises: a handler may have closed its descriptor."""
        try:
            if self._waiter is not None:
                self._waiter.close()
        except Exception as error:  # noqa: BLE001 - it must not replace an error of the run
            self._run.logger.warning("The waiter for notifications could not be closed: %s", error)
