"""
Critical sections, which handler interrupts do not enter, and a lock that refuses nested calls of one thread.

A handler registered with ``interrupt=True`` can be interrupted between any two instructions. Inside a store, that could
leave a lock held for ever or a move half done; inside a guard, the exception would be dropped. So the public methods of
every backend, and the guards around a user's loggers and metrics, are critical sections: an interrupt is delayed until
they end.

`StoreLock` refuses a call that a signal handler or finaliser makes inside another call of the same store.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any, Protocol, TypeVar, cast

from scheduler.errors import BackendUnavailable

_MARK = "__scheduler_critical__"
F = TypeVar("F", bound=Callable[..., Any])


class Interruptible(Protocol):
    """One run of a handler, which may be interrupted while `depth` is 0. Only its own thread changes `depth`."""

    depth: int

    def left(self) -> None:
        """Raise the interrupt that was delayed, if any, unless an outer critical section still runs."""
        ...

    def dropped(self) -> None:
        """Record that Python dropped the interrupt that was raised."""
        ...


class _Here(threading.local):
    run: Interruptible | None = None


here = _Here()
"""The interruptible run on this thread, None if there is none."""


def critical(function: F) -> F:
    """Decorate a function that must not be interrupted. An interrupt is delayed until the outermost such call ends."""
    if hasattr(function, _MARK):
        return function

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        run = here.run
        if run is None:
            return function(*args, **options)
        run.depth += 1
        try:
            return function(*args, **options)
        finally:
            run.depth -= 1
            run.left()

    setattr(call, _MARK, True)
    return cast("F", call)


def make_critical(cls: type) -> None:
    """Make every public method of *cls* a critical section, inherited ones included."""
    for name in dir(cls):
        method = inspect.getattr_static(cls, name)
        is_abstract = getattr(method, "__isabstractmethod__", False)
        if isinstance(method, FunctionType) and not name.startswith("_") and not is_abstract:
            setattr(cls, name, critical(method))


class StoreLock:
    """
    Lock around whole calls of a store. Refuses a call inside another call of the same thread.

    Such a call comes from a signal handler, or from a finaliser, which the garbage collector may run at any allocation.
    The outer call may have done half of a move, so the inner one must not use the store. If it waited for the lock, the
    thread would wait for itself.
    """

    def __init__(self) -> None:
        # An RLock, since it records its owner in the same step in which it is acquired. Typed as Any, since no stub has
        # _is_owned, which threading.Condition uses as well.
        self._lock: Any = threading.RLock()

    @property
    def is_mine(self) -> bool:
        """True if this thread holds the lock."""
        return bool(self._lock._is_owned())  # noqa: SLF001 - see above

    def refuse_mine(self) -> None:
        """Raise `BackendUnavailable` if this thread holds the lock."""
        if self.is_mine:
            raise BackendUnavailable(
                "called inside another call of the same thread, by a finaliser or a signal handler; nothing was done: "
                "make the call later, or from another thread"
            )

    def entry(self) -> Any:
        """Return the lock for a `with` statement, which leaves no gap for a Ctrl-C. Raises like `refuse_mine`."""
        self.refuse_mine()
        return self._lock

    def acquire(self, timeout: float) -> bool:
        """Acquire the lock within *timeout* seconds. Return False if that failed."""
        acquired: bool = self._lock.acquire(timeout=timeout)
        return acquired

    def acquire_once(self, timeout: float, releases: list[Callable[[], None]]) -> bool:
        """
        Acquire the lock within *timeout* seconds. Return False if that failed, or if this thread already holds it.

        The thread already holds it if a signal handler forks inside a call. The function that releases the lock is
        added to *releases* before it is acquired, so that a Ctrl-C cannot leave it held.
        """
        if self.is_mine:
            return False
        releases.append(self.release_mine)
        return self.acquire(timeout)

    def release_mine(self) -> None:
        """Release the lock if this thread holds it, which the caller cannot know after a Ctrl-C in `acquire`."""
        if self.is_mine:
            self._lock.release()
