"""The handlers of a worker, by job type."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from scheduler.errors import ConfigError, DuplicateHandler, InvalidHandler
from scheduler.jobs import Job
from scheduler.limits import check_kind, check_name
from scheduler.retry import Delays, check_delays
from scheduler.worker.context import JobContext

HandlerFunction = Callable[[Job, JobContext], object]
_ARGUMENTS: Final = 2  # job, ctx


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """A registered handler and its options."""

    function: HandlerFunction
    retry_policy: Delays | None = None
    """For jobs without a retry policy of their own. None means the worker's."""
    interrupt: bool = False
    """Whether to raise `JobInterrupted` in the handler's thread when its context is cancelled."""


class Handlers:
    """Handlers by job type. Handlers may be registered while the pool's threads look them up."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}

    def register(self, job_type: str, handler: Handler) -> None:
        """
        Register *handler* for *job_type*.

        Raises `DuplicateHandler` if the type has one, `InvalidHandler` if it cannot be called as handler(job, ctx).
        """
        job_type = check_name("type", job_type, ConfigError)
        _check_function(handler.function)
        if handler.retry_policy is not None:
            check_delays(handler.retry_policy)
        check_kind("interrupt", handler.interrupt, bool)
        if self._handlers.setdefault(job_type, handler) is not handler:
            raise DuplicateHandler(f"the job type {job_type!r} already has a handler")

    def find(self, job_type: str) -> Handler | None:
        """Return the handler of *job_type*, None if there is none."""
        return self._handlers.get(job_type)

    @property
    def types(self) -> list[str]:
        """The job types that have a handler, sorted."""
        return sorted(self._handlers)


def _check_function(function: object) -> None:
    if not callable(function):
        raise InvalidHandler(f"a handler must be callable as handler(job, ctx), not {type(function).__name__}")
    inner: object = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    # A function wrapped by a decorator is not checked: a plain wrapper may run a coroutine function to its end.
    for candidate in (inner, getattr(inner, "__call__", None)):  # noqa: B004 - the method itself is checked
        if (
            inspect.iscoroutinefunction(candidate)
            or inspect.isgeneratorfunction(candidate)
            or inspect.isasyncgenfunction(candidate)
        ):
            raise InvalidHandler("a handler must be a plain function: nothing would run a coroutine or generator")
    try:
        signature = inspect.signature(function, follow_wrapped=False)  # the wrapper is what is called
    except (TypeError, ValueError):
        return  # some built-in callables have no signature
    try:
        signature.bind(*range(_ARGUMENTS))
    except TypeError as error:
        raise InvalidHandler(f"a handler is called as handler(job, ctx): {error}") from None
