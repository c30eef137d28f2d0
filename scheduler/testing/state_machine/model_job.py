"""A job of the model, and functions of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from scheduler.jobs import AS_ASKED, ErrorDetail, ErrorRecord, Job, NewJob
from scheduler.limits import MAX_ERRORS
from scheduler.states import JobState

WAITING = frozenset({JobState.SCHEDULED, JobState.RETRY_WAIT})


@dataclass(slots=True)
class ModelJob:
    """The expected job, and fields that the reads of a store do not show."""

    job: Job
    new: NewJob
    token: str | None = None
    ready_at: datetime | None = None  # None: released, so the store chooses its position within its priority


def goes_before(first: ModelJob, second: ModelJob) -> bool:
    """Return True if *first* must be leased before *second*. Only jobs of one partition of one queue are ordered."""
    if _place(first.job) != _place(second.job):
        return False
    if first.job.priority != second.job.priority:
        return first.job.priority < second.job.priority
    return first.ready_at is not None and second.ready_at is not None and first.ready_at < second.ready_at


def _place(job: Job) -> tuple[str, int, int]:
    return job.queue, job.queue_version, job.partition


def fresh(new: NewJob, version: int, partition: int, now: datetime) -> Job:
    """Return *new* as stored at *now*. It is always scheduled, even if it is due immediately."""
    run_at = new.run_at_from(now)
    waits = run_at > now
    return Job(
        **{name: getattr(new, name) for name in AS_ASKED},
        state=JobState.SCHEDULED,
        run_at=run_at,
        due_at=run_at if waits else now,
        created_at=now,
        metadata=dict(new.metadata),
        queue_version=version,
        partition=partition,  # the store chooses it once
    )


def settled(job: Job, now: datetime) -> Job:
    """Return *job* as it is after promotion, since a due job may be stored as scheduled or as ready."""
    if job.state in WAITING and due(job) <= now:
        return replace(job, state=JobState.READY, due_at=None)
    return job


def due(job: Job) -> datetime:
    """Return the time at which a waiting job is due."""
    assert job.due_at is not None, f"a job that is {job.state} has no due_at"
    return job.due_at


def record_error(row: ModelJob, detail: ErrorDetail, now: datetime) -> None:
    """Add an error of the current attempt."""
    record = ErrorRecord.of(detail, attempt=row.job.attempts, at=now)
    row.job = replace(row.job, errors=(*row.job.errors, record)[-MAX_ERRORS:])
