"""What became of one run of a job, and how an exception is put into words."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from scheduler.jobs import ErrorDetail
from scheduler.leases import Completion, Failure, Lease


class Verdict(StrEnum):
    """The contract method that records the outcome."""

    COMPLETE = "complete"
    RETRY = "retry"
    BURY = "bury"
    RELEASE = "release"


class Outcome(NamedTuple):
    """A verdict and the argument for its contract method: a Completion, a Failure, or the lease to release."""

    verdict: Verdict
    order: Completion | Failure | Lease

    @property
    def lease(self) -> Lease:
        """The lease that the outcome settles."""
        return self.order if isinstance(self.order, Lease) else self.order.lease


def released(lease: Lease) -> Outcome:
    """Give the job back, its attempt too."""
    return Outcome(Verdict.RELEASE, lease)


def put_back(lease: Lease, delay: float, error: ErrorDetail | None = None) -> Outcome:
    """Let the job wait for *delay* seconds without using up an attempt."""
    return Outcome(Verdict.RETRY, Failure(lease=lease, delay=delay, error=error, counted=False))


def describe(error: BaseException) -> ErrorDetail:
    """*error* as it is stored. Works whatever the exception does when it is formatted."""
    kind = type(error)
    return ErrorDetail(
        kind=_tried(
            lambda: kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        )
        or "Exception",
        message=_tried(lambda: str(error)) or "",
        traceback=_tried(lambda: "".join(traceback.format_exception(error, limit=-50))) or "",
    )


def _tried(text: Callable[[], object]) -> str:
    try:
        # str() of a str subclass could run its code again later; join makes a plain one.
        return "".join((str(text()),))
    except BaseException as error:  # noqa: BLE001 - __str__ may raise anything, SystemExit included
        return f"<not printable: {type(error).__name__}>"
