"""
Every error of the library, and the signals a handler may raise.

Errors belong to the `SchedulerError` family: catch that one to catch all. Signals steer a job's fate from inside a
handler and are not errors, so they stand outside the family.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # the field is typed here, and errors stay the lowest floor
    from scheduler.jobs import Job, NewJob


class SchedulerError(Exception):
    """The root of all errors of this library."""


class _FieldError(SchedulerError):
    """An error that names the field at fault."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(field, message)  # both in args, so that the error survives pickling
        self.field = field
        self.message = message

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class ConfigError(_FieldError, ValueError):
    """A configuration value, a URL or an argument of a call is refused; `field` names it."""


class JobError(SchedulerError):
    """Something is wrong with one job."""


class InvalidJob(_FieldError, JobError, ValueError):
    """A job is refused before anything is stored; `field` names what is wrong with it."""


class JobTimeout(JobError):
    """A handler ran past its timeout. Recorded as the failed attempt's error."""


class JobNotFound(JobError):
    """No job with this id is stored in this queue."""


class DuplicateJob(JobError):
    """The id or idempotency key is taken (`if_exists="raise"`); `job` is the one that is stored."""

    def __init__(self, message: str, job: Job | None = None) -> None:
        super().__init__(message, job)
        self.job = job

    def __str__(self) -> str:
        return str(self.args[0])


class HandlerError(SchedulerError):
    """Something is wrong with a handler or its registration."""


class DuplicateHandler(HandlerError):
    """The job type has a handler already."""


class InvalidHandler(HandlerError, TypeError):
    """The object cannot be a handler: not callable, or a coroutine or generator function."""


class UnknownJobType(HandlerError):
    """No handler of this worker knows the job type."""


class WorkerCrashed(SchedulerError):
    """A worker ended: one of its own threads died of a bug, the `__cause__`, or too many handlers are `stuck`."""

    def __init__(self, message: str, *, stuck: int = 0) -> None:
        super().__init__(message)
        self.stuck = stuck


class BackendError(SchedulerError):
    """The store refused or failed; the driver's error is kept as `__cause__`."""


class BackendUnavailable(BackendError):
    """
    The store did not answer; the call may or may not have taken effect. It may pass: repeat the call.

    From a producer it carries the `jobs` of the call, and `producer.enqueue_many(error.jobs)` repeats exactly those.
    """

    def __init__(self, message: str, *, jobs: Sequence[NewJob] = ()) -> None:
        super().__init__(message)
        self.jobs = tuple(jobs)


class BackendClosed(BackendError):
    """The backend was closed and takes no further calls."""


class SchemaMismatch(BackendError):
    """The database has no schema, or one of another version than this library knows."""


class TopologyError(BackendError):
    """A change of a queue's versions is refused; `counts` says how many jobs of each state stand in the way."""

    def __init__(self, message: str, *, counts: Mapping[str, int] | None = None) -> None:
        super().__init__(message)
        self.counts = dict(counts or {})


class NotSupported(BackendError):
    """The store does not offer this ability."""


class Retry(Exception):
    """Raise in a handler: this attempt failed, try again after *delay* seconds (None = by the retry policy)."""

    def __init__(self, reason: str = "", *, delay: float | None = None) -> None:
        super().__init__(reason)
        self.delay = delay


class Snooze(Exception):
    """Raise in a handler: put the job back for *delay* seconds without using up an attempt."""

    def __init__(self, delay: float) -> None:
        super().__init__(delay)
        self.delay = delay


class Discard(Exception):
    """Raise in a handler: the job is dead at once, for *reason*."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


InterruptReason = Literal["timeout", "lease lost", "stopping"]


class JobInterrupted(BaseException):
    """
    Raised by `ctx.check()` in a handler whose time is up, whose lease is lost, or whose worker is stopping.

    A BaseException, so that `except Exception` in a handler does not swallow it. `reason` says what the worker makes
    of it: "timeout" = a failed attempt, "lease lost" = the outcome is dropped, "stopping" = released, no attempt used.
    """

    def __init__(self, reason: InterruptReason) -> None:
        super().__init__(reason)
        self.reason: InterruptReason = reason
