"""The lock of a store, which no thread waits for while it holds it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from scheduler.errors import BackendUnavailable


class StoreLock:
    """
    A lock around whole calls of a store. A call inside another call of the same thread is refused.

    Such a call comes from a signal handler, or from a finaliser, which the garbage collector may run at any allocation.
    The call that it interrupted may have done half of a move, so it must not use the store now; and if it waited for
    the lock, it would wait for itself.
    """

    def __init__(self) -> None:
        # Re-entrant, since such a lock has its owner from the moment at which it is acquired. Any: no stub has
        # _is_owned, which threading.Condition uses as well.
        self._lock: Any = threading.RLock()

    @property
    def is_mine(self) -> bool:
        """Whether this thread holds it."""
        return bool(self._lock._is_owned())  # noqa: SLF001 - see above

    def refuse_mine(self) -> None:
        """Raise `BackendUnavailable` if this thread holds it."""
        if self.is_mine:
            raise BackendUnavailable(
                "called inside another call of the same thread, by a finaliser or a signal handler; nothing was done: "
                "make the call later, or from another thread"
            )

    def entry(self) -> Any:
        """Return the lock for a `with` statement: the interpreter acquires it, so that a Ctrl-C finds no gap."""
        self.refuse_mine()
        return self._lock

    def acquire(self, timeout: float) -> bool:
        """Acquire it within *timeout* seconds."""
        acquired: bool = self._lock.acquire(timeout=timeout)
        return acquired

    def acquire_once(self, timeout: float, releases: list[Callable[[], None]]) -> bool:
        """
        Acquire it within *timeout* seconds, unless this thread holds it: a signal handler may fork inside a call.

        Before that, add to *releases* what releases it, so that a Ctrl-C leaves it to be released.
        """
        if self.is_mine:
            return False
        releases.append(self.release_mine)
        return self.acquire(timeout)

    def release_mine(self) -> None:
        """Release it if this thread holds it: a Ctrl-C may have come just as `acquire` returned."""
        if self.is_mine:
            self._lock.release()
