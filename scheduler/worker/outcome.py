"""Outcomes of jobs: how they are recorded, and how exceptions are described in them."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple

from scheduler.backend import Backend
from scheduler.errors import Discard, Retry
from scheduler.jobs import ErrorDetail
from scheduler.leases import Completion, Failure, Lease


class Verdict(StrEnum):
    """Kind of an outcome: the name of the `Backend` method that records it."""

    COMPLETE = "complete"
    RETRY = "retry"
    BURY = "bury"
    RELEASE = "release"


class Outcome(NamedTuple):
    """A verdict and the argument of its `Backend` method: a Completion, a Failure, or the lease to release."""

    verdict: Verdict
    request: Completion | Failure | Lease

    @property
    def lease(self) -> Lease:
        """The lease that the outcome settles."""
        return self.request if isinstance(self.request, Lease) else self.request.lease


def record(backend: Backend, verdict: Verdict, outcomes: Sequence[Outcome]) -> Sequence[Lease]:
    """Record *outcomes*, all of this verdict, in one call. Return the leases that the store refuses."""
    method: Callable[[Sequence[Completion | Failure | Lease]], Sequence[Lease]] = getattr(backend, verdict)
    return method([outcome.request for outcome in outcomes])


def released(lease: Lease) -> Outcome:
    """Return the outcome that gives the job back, without using up an attempt."""
    return Outcome(Verdict.RELEASE, lease)


def put_back(lease: Lease, delay: float, error: ErrorDetail | None = None) -> Outcome:
    """Return the outcome that lets the job wait for *delay* seconds, without using up an attempt."""
    return Outcome(Verdict.RETRY, Failure(lease=lease, delay=delay, error=error, counted=False))


def describe(error: BaseException) -> ErrorDetail:
    """Return *error* in the form that is stored. Never raises, even if formatting the exception fails."""
    return ErrorDetail(kind=_kind(error), message=_tried(lambda: str(error)), traceback=_traceback(error))


def describe_signal(signal: BaseException) -> ErrorDetail:
    """
    Return a `Retry` or `Discard` in the form that is stored: its reason, and a traceback if another error caused it.

    Without a reason, the message is that of the other error.
    """
    name = (Retry if issubclass(type(signal), Retry) else Discard).__name__
    reason = _tried(lambda: str(signal))
    cause = _cause(signal)
    if cause is None:
        return ErrorDetail(kind=name, message=reason)
    return ErrorDetail(kind=name, message=reason or summary(describe(cause)), traceback=_traceback(signal))


def summary(error: ErrorDetail) -> str:
    """Return the class and the message of *error* as one text."""
    return f"{error.kind}: {error.message}" if error.message else error.kind


def _cause(error: BaseException) -> BaseException | None:
    # A subclass may redefine these attributes. If they cannot be read, there is no cause.
    try:
        cause = error.__cause__
        if cause is None and not error.__suppress_context__:
            cause = error.__context__
    except BaseException:  # noqa: BLE001 - a property may raise anything
        return None
    return cause


def _kind(error: BaseException) -> str:
    kind = type(error)
    name = _tried(
        lambda: kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    )
    return name or "Exception"


def _traceback(error: BaseException) -> str:
    return _tried(lambda: "".join(traceback.format_exception(error, limit=-50)))


_NAME = vars(type)["__name__"]  # reads a class's name even if its metaclass redefines it


def _tried(text: Callable[[], object]) -> str:
    try:
        # str() of a str subclass could run its code again later; join makes a plain one.
        return "".join((str(text()),))
    except BaseException as error:  # noqa: BLE001 - __str__ may raise anything, SystemExit included
        return f"<not printable: {_NAME.__get__(type(error))}>"
