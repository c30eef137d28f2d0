"""Which rows stand in a state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Table, case, func, literal_column, select, true, tuple_

from scheduler.jobs import Priority
from scheduler.states import JobState
from scheduler_backends.postgres.statements.parts import (
    NOW,
    Expression,
    is_finished,
    is_waiting,
    literal,
    priorities,
)
from scheduler_backends.sql.cursors import goes_by_priority
from scheduler_backends.sql.states import CODES, LEASED, RETRY_WAIT, SCHEDULED

AHEAD: Final = (JobState.SCHEDULED, JobState.RETRY_WAIT)
"""States of jobs whose due time is ahead."""


def state_filter(
    job: Table,
    state: JobState,
    queue: Expression,
    priority: Expression | None = None,
    *,
    later: Expression | None = None,
    with_retries: bool = False,
) -> tuple[Expression, ...]:
    """
    The conditions of *state* in *queue*. Each repeats the predicate of the index that finds the rows.

    priority: where only jobs of one are asked for. later: another condition by which the due time is ahead.
    with_retries: scheduled jobs, and those that wait for a retry.
    """
    here = job.c.queue == queue
    later = job.c.due_at > NOW if later is None else later
    if goes_by_priority(state):
        of = (
            job.c.priority.in_([literal(each) for each in Priority]) if priority is None else job.c.priority == priority
        )
        waiting = (here, of, is_waiting(job))
        if state is JobState.READY:
            return (*waiting, job.c.due_at <= NOW)
        return (*waiting, later) if with_retries else (*waiting, later, job.c.state == literal(SCHEDULED))
    if state is JobState.RETRY_WAIT:
        return here, job.c.state == literal(RETRY_WAIT), later
    if state is JobState.LEASED:
        return here, job.c.state == literal(LEASED)
    return here, job.c.state == literal(CODES[state]), is_finished(job)


def first_of(
    job: Table,
    state: JobState,
    queue: Expression,
    what: Expression,
    limit: Expression,
    *,
    around: Sequence[Any] = (),
    lock: bool = False,
    with_retries: bool = False,
) -> Any:
    """
    *what* of up to *limit* jobs that stand in *state*, one priority after the other where the index has it so.

    In the order of the index, lest the table be scanned: where many rows match, a plan for a few of any of them reads
    it from its beginning, and passes by all that were stored before them. around: what *queue* is a column of.
    lock: each row, but for those that somebody else has locked.
    """
    priority = priorities() if goes_by_priority(state) else None
    number = None if priority is None else priority.c.priority
    found = (
        select(what.label("what"))
        .select_from(job)
        .where(*state_filter(job, state, queue, number, with_retries=with_retries))
        .order_by(key_of(job, state))
        .limit(limit)
    )
    if lock:
        found = found.with_for_update(skip_locked=True, of=job)
    if priority is None:
        return found.correlate(*around)
    first = found.correlate(priority, *around).lateral("first")
    # A loop that is not sorted: it stops, and so locks no further row, once the limit is reached.
    return select(first.c.what).select_from(priority.join(first, true())).limit(limit).correlate(*around)


def beyond(job: Table, state: JobState, key: Expression, id: Expression) -> Expression:
    """
    What a list of *state* finds behind the position of *key* and *id*.

    Where jobs wait for their time it is the one bound that says so too: of two, the server begins a scan at the first,
    and so each page of a long list at the present moment, or the first page at the longest ready job.
    """
    if state in AHEAD:
        id = case((key > NOW, id), else_=literal_column("''"))
        key = func.greatest(key, NOW + literal(1))
    found: Expression = tuple_(key_of(job, state), job.c.id) > tuple_(key, id)
    return found


def key_of(job: Table, state: JobState) -> Any:
    """By what a list of *state* walks, besides the id."""
    if state is JobState.LEASED:
        return job.c.lease_token
    return job.c.due_at if state in (JobState.SCHEDULED, JobState.READY, JobState.RETRY_WAIT) else job.c.finished_at
