"""Passes a store's wake-ups on to the loops that sleep."""

from __future__ import annotations

from collections.abc import Callable

from scheduler.backend import Waiter

_LONGEST_WAIT = 30.0  # seconds: a wait costs nothing, and is interrupted at a stop


class Listener:
    """`listen` is the duty of the wake-up thread, which waits on a connection of its own."""

    def __init__(self, waiter: Waiter, *rings: Callable[[], None]) -> None:
        self._waiter = waiter
        self._rings = rings

    def listen(self) -> float:
        """Wait for news of new work and ring everybody who may sleep too long because of it."""
        if self._waiter.wait(_LONGEST_WAIT):
            for ring in self._rings:
                ring()
        return 0.0
