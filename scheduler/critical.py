"""
Critical sections: calls of the library inside which no asynchronous exception is raised in a handler's thread.

Handlers registered with ``interrupt=True`` are interrupted between two instructions. Inside a store that could leave a
lock held for ever or a move half done, and inside a guard it would be swallowed. So the public methods of every backend
and the guards around a user's loggers and metrics count themselves in, on the thread, and the interrupt waits.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any, Protocol, TypeVar, cast

_MARK = "__scheduler_critical__"
F = TypeVar("F", bound=Callable[..., Any])


class Interruptible(Protocol):
    """One run of a handler that may be interrupted while `depth` is 0. Its thread alone changes that."""

    depth: int

    def left(self) -> None:
        """The thread has left its outermost critical section: raise the interrupt that waited for that, if any."""
        ...

    def dropped(self) -> None:
        """Python has dropped the interrupt that was raised."""
        ...


class _Here(threading.local):
    run: Interruptible | None = None


here = _Here()
"""The run on this thread, None outside of handlers that may be interrupted."""


def critical(function: F) -> F:
    """Decorate a function inside which no interrupt lands. One that waits is raised as the outermost of them ends."""
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
    """Make every public method of *cls* a critical section, those that it inherits from other classes too."""
    for name in dir(cls):
        method = inspect.getattr_static(cls, name)
        is_abstract = getattr(method, "__isabstractmethod__", False)
        if isinstance(method, FunctionType) and not name.startswith("_") and not is_abstract:
            setattr(cls, name, critical(method))
