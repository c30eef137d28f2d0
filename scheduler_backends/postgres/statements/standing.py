"""Which rows stand in a state."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Table

from scheduler.jobs import Priority
from scheduler.states import JobState
from scheduler_backends.postgres.statements.parts import NOW, Expression, is_finished, is_waiting, literal
from scheduler_backends.sql.states import CODES, LEASED, RETRY_WAIT, SCHEDULED


def waiting_later(job: Table, queue: Expression) -> tuple[Expression, ...]:
    """Scheduled, or waiting for a retry."""
    return job.c.queue == queue, _of_any_priority(job), is_waiting(job), job.c.due_at > NOW


def standing(job: Table, state: JobState, queue: Expression) -> tuple[Expression, ...]:
    """The conditions of *state* in *queue*. Each repeats the predicate of the index that finds the rows."""
    here = job.c.queue == queue
    if state is JobState.SCHEDULED:
        return (*waiting_later(job, queue), job.c.state == literal(SCHEDULED))
    if state is JobState.READY:
        return here, _of_any_priority(job), is_waiting(job), job.c.due_at <= NOW
    if state is JobState.RETRY_WAIT:
        return here, job.c.state == literal(RETRY_WAIT), job.c.due_at > NOW
    if state is JobState.LEASED:
        return here, job.c.state == literal(LEASED)
    return here, job.c.state == literal(CODES[state]), is_finished(job)


def key_of(job: Table, state: JobState) -> Any:
    """By what a list of *state* walks, besides the id."""
    if state is JobState.LEASED:
        return job.c.lease_token
    return job.c.due_at if state in (JobState.SCHEDULED, JobState.READY, JobState.RETRY_WAIT) else job.c.finished_at


def _of_any_priority(job: Table) -> Expression:
    found: Expression = job.c.priority.in_([literal(priority) for priority in Priority])
    return found
