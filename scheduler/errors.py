"""
Errors of the library, and signals that a handler may raise.

Every error is a `SchedulerError`. Signals (`Retry`, `Snooze`, `Discard`) decide what happens to the handler's job. They
are not errors and do not derive from `SchedulerError`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # for annotations only, since errors are the lowest layer
    from scheduler.jobs import Job, NewJob

__all__ = [
    "BackendClosed",
    "BackendError",
    "BackendUnavailable",
    "ConfigError",
    "Discard",
    "DuplicateHandler",
    "DuplicateJob",
    "HandlerError",
    "InvalidHandler",
    "InvalidJob",
    "JobError",
    "JobInterrupted",
    "JobNotFound",
    "JobTimeout",
    "NotSupported",
    "Retry",
    "SchedulerError",
    "SchemaMismatch",
    "Snooze",
    "TopologyError",
    "UnknownJobType",
    "WorkerCrashed",
]


class SchedulerError(Exception):
    """Base class of all errors of this library."""


class _FieldError(SchedulerError):
    """Base class of errors that name an invalid field."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(field, message)  # both in args, so that the error survives pickling
        self.field = field
        self.message = message

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class ConfigError(_FieldError, ValueError):
    """A configuration value, a URL or an argument of a call is invalid; `field` names it."""


class JobError(SchedulerError):
    """Base class of errors about one job."""


class InvalidJob(_FieldError, JobError, ValueError):
    """A job is invalid, and nothing was stored; `field` names the invalid value."""


class JobTimeout(JobError):
    """A handler ran past its timeout. Recorded as the error of the failed attempt."""


class JobNotFound(JobError):
    """The queue has no job with this id."""


class DuplicateJob(JobError):
    """The id or idempotency key is in use (`if_exists="raise"`); `job` is the stored job."""

    def __init__(self, message: str, job: Job | None = None) -> None:
        super().__init__(message, job)
        self.job = job

    def __str__(self) -> str:
        return str(self.args[0])


class HandlerError(SchedulerError):
    """Base class of errors about handlers and their registration."""


class DuplicateHandler(HandlerError):
    """The job type already has a handler."""


class InvalidHandler(HandlerError, TypeError):
    """The object cannot be a handler: not callable, or a coroutine or generator function."""


class UnknownJobType(HandlerError):
    """This worker has no handler for the job type."""


class WorkerCrashed(SchedulerError):
    """
    A worker stopped because it failed.

    Either one of its own threads raised an error, which is the `__cause__`, or too many handler threads are stuck;
    `stuck` is their number.
    """

    def __init__(self, message: str, *, stuck: int = 0) -> None:
        super().__init__(message)
        self.stuck = stuck


class BackendError(SchedulerError):
    """The store refused a call or failed; the driver's error is the `__cause__`."""


class BackendUnavailable(BackendError):
    """
    The store cannot be reached now. The call may or may not have taken effect; it is safe to repeat it.

    If a producer raises it, `jobs` holds the jobs that were not acknowledged; `producer.enqueue_many(error.jobs)`
    repeats exactly those.
    """

    def __init__(self, message: str, *, jobs: Sequence[NewJob] = ()) -> None:
        super().__init__(message)
        self.jobs = tuple(jobs)


class BackendClosed(BackendError):
    """The backend was closed."""


class SchemaMismatch(BackendError):
    """The database has no schema, or one of a version that this release does not support."""


class TopologyError(BackendError):
    """A change of a queue's versions was refused; `counts` is the number of jobs that prevent it, by state."""

    def __init__(self, message: str, *, counts: Mapping[str, int] | None = None) -> None:
        super().__init__(message)
        self.counts = dict(counts or {})


class NotSupported(BackendError):
    """The store does not have this ability."""


class Retry(Exception):
    """Raise in a handler to fail the attempt and retry after *delay* seconds (None = by the retry policy)."""

    def __init__(self, reason: str = "", *, delay: float | None = None) -> None:
        super().__init__(reason)
        self.delay = delay


class Snooze(Exception):
    """Raise in a handler to put the job back for *delay* seconds without using an attempt."""

    def __init__(self, delay: float) -> None:
        super().__init__(delay)
        self.delay = delay


class Discard(Exception):
    """Raise in a handler to make the job dead at once; *reason* is recorded as its error."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


InterruptReason = Literal["timeout", "lease lost", "stopping"]


class JobInterrupted(BaseException):
    """
    Raised by `ctx.check()` in a handler whose time is up, whose lease is lost, or whose worker is stopping.

    It is a BaseException, so that `except Exception` in a handler does not catch it. `reason` decides what the worker
    records: "timeout" = a failed attempt; "lease lost" = nothing, since another worker may hold the job; "stopping" =
    the job is released and no attempt is used.
    """

    def __init__(self, reason: InterruptReason) -> None:
        super().__init__(reason)
        self.reason: InterruptReason = reason
