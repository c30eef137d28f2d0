"""
What may not cut into a call: the interrupt of a handler, and another call of the same thread.

Handlers registered with ``interrupt=True`` are interrupted between two instructions. Inside a store, that could leave a
lock held for ever or a move half done; inside a guard, the exception would be dropped. So the public methods of every
backend, and the guards around a user's loggers and metrics, are critical sections: the interrupt waits for their end.

A call by a signal handler or a finaliser, inside another call of the same store, is refused by the store's `StoreLock`.
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
    """One run of a handler that may be interrupted while `depth` is 0. Only its own thread changes the depth."""

    depth: int

    def left(self) -> None:
        """Raise the interrupt that waited for the end of the outermost critical section, if any."""
        ...

    def dropped(self) -> None:
        """Note that Python dropped the interrupt that was raised."""
        ...


class _Here(threading.local):
    run: Interruptible | None = None


here = _Here()
"""The run on this thread. None outside handlers that may be interrupted."""


def critical(function: F) -> F:
    """Decorate a function that is not to be interrupted. An interrupt waits until the outermost such call ends."""
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
