"""A job as the model keeps it, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from scheduler.jobs import AS_ASKED, ErrorDetail, ErrorRecord, Job, NewJob
from scheduler.limits import MAX_ERRORS
from scheduler.states import JobState

WAITING = frozenset({JobState.SCHEDULED, JobState.RETRY_WAIT})


@dataclass(slots=True)
class ModelJob:
    """A job as it should be, and what its readers do not see."""

    job: Job
    new: NewJob
    token: str | None = None
    ready_at: datetime | None = None  # None: released, so its place among its priority is the store's choice


def goes_before(first: ModelJob, second: ModelJob) -> bool:
    """Whether *first* must be leased before *second*: only within one partition of one queue, and ties are free."""
    if _place(first.job) != _place(second.job):
        return False
    if first.job.priority != second.job.priority:
        return first.job.priority < second.job.priority
    return first.ready_at is not None and second.ready_at is not None and first.ready_at < second.ready_at


def _place(job: Job) -> tuple[str, int, int]:
    return job.queue, job.queue_version, job.partition


def fresh(new: NewJob, version: int, partition: int, now: datetime) -> Job:
    """*new* as stored at *now*; it still waits, if only to be promoted at once."""
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
        partition=partition,  # the store's choice, which then stays
    )


def settled(job: Job, now: datetime) -> Job:
    """*job* as it is once everything due is promoted: a job due now may be stored either way."""
    if job.state in WAITING and due(job) <= now:
        return replace(job, state=JobState.READY, due_at=None)
    return job


def due(job: Job) -> datetime:
    """When a waiting job is due."""
    assert job.due_at is not None, f"a job that is {job.state} has no due_at"
    return job.due_at


def record_error(row: ModelJob, detail: ErrorDetail, now: datetime) -> None:
    """Add an error of the present attempt."""
    record = ErrorRecord.of(detail, attempt=row.job.attempts, at=now)
    row.job = replace(row.job, errors=(*row.job.errors, record)[-MAX_ERRORS:])
