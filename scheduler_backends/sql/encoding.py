"""Conversion of new jobs to rows. `decoding` converts rows to jobs."""

from __future__ import annotations

from operator import attrgetter
from typing import Final, NamedTuple

from scheduler.jobs import Job, NewJob
from scheduler.states import JobState
from scheduler.values import maker_of
from scheduler_backends.sql.columns import STORED
from scheduler_backends.sql.moments import from_micros, later, to_micros

_FIELDS: Final = tuple(name for name in STORED if name not in ("nonce", "metadata"))
_values = attrgetter(*STORED)
_fields = attrgetter(*_FIELDS)
# Place, encoder, and the value that is stored if the field is empty or 0.
_ENCODERS: Final = [
    (place, column.encode, None if column.null else 0)
    for place, column in enumerate(STORED.values())
    if column.encode is not None
]

# The fields in the order in which `stored_job` passes them. Built without checks: a call may store thousands of jobs.
_job = maker_of(Job, *_FIELDS, "metadata", "state", "run_at", "created_at", "due_at")


class Moments(NamedTuple):
    """Times that a store sets on a new job, in microseconds since 1970."""

    run_at: int
    due_at: int
    created_at: int


def moments_of(job: NewJob, now: int) -> Moments:
    """Return the moments of *job* if it is stored at *now*."""
    run_at = later(now, job.delay or 0.0) if job.run_at is None else to_micros(job.run_at)
    return Moments(run_at, max(run_at, now), now)


def values_of(job: NewJob) -> list[object]:
    """Return the values of the columns in `STORED`, in their order."""
    values = [*_values(job)]
    for place, encode, empty in _ENCODERS:
        value = values[place]
        values[place] = encode(value) if value else empty
    return values


def stored_job(job: NewJob, run_at: int, due_at: int, created_at: int) -> Job:
    """Return the `Job` that enqueue returns for a *job* it has just stored."""
    waits = due_at > created_at
    return _job(
        *_fields(job),
        dict(job.metadata),  # that of a NewJob is read-only
        JobState.SCHEDULED if waits else JobState.READY,
        from_micros(run_at),
        from_micros(created_at),
        from_micros(due_at) if waits else None,
    )
