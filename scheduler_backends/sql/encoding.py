"""How a new job becomes a row; `decoding` makes a job of a row."""

from __future__ import annotations

from operator import attrgetter
from typing import Final, NamedTuple

from scheduler.jobs import Job, NewJob
from scheduler.states import JobState
from scheduler.values import maker_of
from scheduler_backends.sql.columns import STORED
from scheduler_backends.sql.moments import from_micros, later, to_micros

_FIELDS: Final = tuple(name for name in STORED if name != "nonce")
_values = attrgetter(*STORED)
_fields = attrgetter(*_FIELDS)
# With what is stored for a field that is empty, or 0.
_ENCODERS: Final = [
    (place, column.encode, None if column.null else 0)
    for place, column in enumerate(STORED.values())
    if column.encode is not None
]

# The fields of `stored_job`, in its order. Nothing is checked: a call may store thousands.
_job = maker_of(Job, *_FIELDS, "state", "run_at", "created_at", "due_at")


class Moments(NamedTuple):
    """What a store adds to a new job, in microseconds since 1970."""

    run_at: int
    due_at: int
    created_at: int


def moments_of(job: NewJob, now: int) -> Moments:
    """Return the moments of *job*, stored at *now*."""
    run_at = later(now, job.delay or 0.0) if job.run_at is None else to_micros(job.run_at)
    return Moments(run_at, max(run_at, now), now)


def values_of(job: NewJob) -> list[object]:
    """Return the values of the columns `STORED`."""
    values = [*_values(job)]
    for place, encode, empty in _ENCODERS:
        value = values[place]
        values[place] = encode(value) if value else empty
    return values


def stored_job(job: NewJob, run_at: int, due_at: int, created_at: int) -> Job:
    """Return the job as the call that stores it returns it."""
    waits = due_at > created_at
    return _job(
        *_fields(job),
        JobState.SCHEDULED if waits else JobState.READY,
        from_micros(run_at),
        from_micros(created_at),
        from_micros(due_at) if waits else None,
    )
