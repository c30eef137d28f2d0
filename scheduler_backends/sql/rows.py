"""
How a job lies in a row; `decoding` makes a job of it again.

Moments are whole microseconds since 1970 in UTC: exact from the year 1 to 9999 whatever the zone of the session, and
compared as plain integers. Documents (errors, metadata, retry policy) are JSON text.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final, NamedTuple

from scheduler import abilities
from scheduler.jobs import ErrorDetail, Job, NewJob
from scheduler.states import JobState
from scheduler.values import maker_of

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
WAKE_HORIZON: Final = int(abilities.WAKE_HORIZON * 1_000_000)
"""In microseconds: a job due later than this wakes nobody when it is stored."""

# The fields of `stored_job`, in its order. Nothing is checked: a call may store thousands.
_job = maker_of(
    Job,
    "id", "queue", "type", "payload", "state", "priority", "run_at", "created_at", "max_retries", "timeout", "due_at",
    "retry_policy", "idempotency_key", "metadata",
)  # fmt: skip

EARLIEST: Final = (datetime.min.replace(tzinfo=UTC) - EPOCH) // MICROSECOND
LATEST: Final = (datetime.max.replace(tzinfo=UTC) - EPOCH) // MICROSECOND


def to_micros(moment: datetime) -> int:
    """Microseconds since 1970."""
    return (moment - EPOCH) // MICROSECOND


@lru_cache(1_024)
def from_micros(micros: int) -> datetime:
    """The moment, in UTC. Kept, since many jobs share theirs: enqueued together, or leased until the same moment."""
    return EPOCH + timedelta(microseconds=micros)


def later(now: int, seconds: float) -> int:
    """*seconds* after *now*, never earlier than asked for, and never beyond what a datetime can say."""
    return min(LATEST, now - int(-seconds * 1_000_000 // 1))


class JobRow(NamedTuple):
    """The columns of a job that statements select, in this order."""

    queue: str
    id: str
    type: str
    payload: bytes
    state: int
    priority: int
    attempts: int
    crashes: int
    max_retries: int
    timeout: float
    run_at: int
    due_at: int
    created_at: int
    finished_at: int | None
    lease_owner: str | None
    lease_until: int | None
    retry_policy: str | None
    idempotency_key: str | None
    metadata: str | None
    errors: str | None
    result: bytes | None
    nonce: str


COLUMNS: Final = JobRow._fields


class Insertion(NamedTuple):
    """What enqueue stores of a new job: the columns without which it cannot begin."""

    queue: str
    id: str
    type: str
    payload: bytes
    priority: int
    max_retries: int
    timeout: float
    run_at: int
    due_at: int
    created_at: int
    retry_policy: str | None
    idempotency_key: str | None
    metadata: str | None
    nonce: str


def insertion(job: NewJob, now: int) -> Insertion:
    """The row of *job*, stored at *now*."""
    run_at = later(now, job.delay or 0.0) if job.run_at is None else to_micros(job.run_at)
    return Insertion(
        job.queue,
        job.id,
        job.type,
        job.payload,
        job.priority,
        job.max_retries,
        job.timeout,
        run_at,
        max(run_at, now),
        now,
        None if job.retry_policy is None else document(job.retry_policy.to_data()),
        job.idempotency_key,
        document(dict(job.metadata)) if job.metadata else None,
        job.nonce,
    )


def document(value: object) -> str:
    """JSON text, compact."""
    return json.dumps(value, separators=(",", ":"))


def error_document(detail: ErrorDetail | None) -> str | None:
    """An error as it is appended to a job's errors; the statement itself adds the attempt's number and the moment."""
    if detail is None:
        return None
    return document({"kind": detail.kind, "message": detail.message, "traceback": detail.traceback})


def stored_job(job: NewJob, run_at: int, due_at: int, created_at: int) -> Job:
    """Return the job as the call that stores it returns it."""
    waits = due_at > created_at
    state = JobState.SCHEDULED if waits else JobState.READY
    return _job(
        job.id, job.queue, job.type, job.payload, state, job.priority, from_micros(run_at), from_micros(created_at),
        job.max_retries, job.timeout, from_micros(due_at) if waits else None,
        job.retry_policy, job.idempotency_key, job.metadata,
    )  # fmt: skip
