"""
Critical sections: calls of the library inside which no asynchronous exception is raised in a handler's thread.

Handlers registered with ``interrupt=True`` are interrupted between two instructions. Inside a store, that could leave a
lock held for ever or a move half done; inside a guard, the exception would be dropped. So the public methods of every
backend, and the guards around a user's loggers and metrics, are critical sections: the interrupt waits for their end.
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
