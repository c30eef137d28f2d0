"""Passes a store's wake-ups on to the loops that sleep."""

from __future__ import annotations

from collections.abc import Callable

from scheduler.backend import Waiter

_LONGEST_WAIT = 30.0  # seconds: a wait costs nothing, and is interrupted at a stop


class Listener:
    """
    `listen` is the duty of the wake-up thread, which waits on a connection of its own; `interrupt` ends its wait.

    The waiter is made on that thread: a store that is away when the worker starts is waited for as at any other time.
    """

    def __init__(self, make_waiter: Callable[[], Waiter], *rings: Callable[[], None]) -> None:
        self._make_waiter = make_waiter
        self._rings = rings
        self._waiter: Waiter | None = None
        self._interrupted = False

    def listen(self) -> float:
        """Wait for news of new work and ring everybody who may sleep too long because of it."""
        if self._waiter is None:
            self._waiter = self._make_waiter()
        # Looked at after the waiter is there: who interrupted before did not find it.
        if not self._interrupted and self._waiter.wait(_LONGEST_WAIT):
            for ring in self._rings:
                ring()
        return 0.0

    def interrupt(self) -> None:
        """Make the present and every later `listen` return at once. Any thread."""
        self._interrupted = True
        if self._waiter is not None:
            self._waiter.interrupt()

    def close(self) -> None:
        """Let go of the waiter."""
        if self._waiter is not None:
            self._waiter.close()
