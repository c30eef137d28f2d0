"""Which rows are in a state. Each condition repeats the predicate of the index that finds the rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler.states import JobState
from scheduler_backends.postgres.statements.parts import NOW, PRIORITIES
from scheduler_backends.sql.cursors import KEYS, goes_by_priority
from scheduler_backends.sql.states import CODES, FINISHED, LEASED, RETRY_WAIT, SCHEDULED, WAITING

# Of one queue and, where the index has it, one priority.
WAITS: Final = f"job.queue = {{queue}} AND job.priority = {{priority}} AND job.state IN {WAITING}"
_RETRIES: Final = f"job.queue = {{queue}} AND job.state = {RETRY_WAIT}"
_LATER: Final = f"job.due_at > {NOW}"

READY: Final = f"{WAITS} AND job.due_at <= {NOW}"
NOT_DUE: Final = f"{WAITS} AND {_LATER}"
"""Scheduled jobs, and those that wait for a retry."""

AHEAD: Final[Mapping[JobState, str]] = {
    JobState.SCHEDULED: f"{WAITS} AND job.state = {SCHEDULED}",
    JobState.RETRY_WAIT: _RETRIES,
}
"""States of jobs whose due time is ahead, without that condition."""

FILTERS: Final[Mapping[JobState, str]] = {
    **{state: f"{condition} AND {_LATER}" for state, condition in AHEAD.items()},
    JobState.READY: READY,
    JobState.LEASED: f"job.queue = {{queue}} AND job.state = {LEASED}",
    **{
        state: f"job.queue = {{queue}} AND job.state = {CODES[state]} AND job.state IN {FINISHED}"
        for state in (JobState.SUCCEEDED, JobState.DEAD, JobState.CANCELLED)
    },
}


def first_of(
    job: str, state: JobState, *, what: str, queue: str, limit: str, condition: str | None = None, lock: str = ""
) -> str:
    """
    Return a SELECT of *what* of up to *limit* jobs in *state*, one priority after the other where the index has it so.

    In the order of the index, so that the table is not scanned: where many rows match, a plan for a few of any of them
    reads it from its beginning, and passes by all that were stored before them. condition: in place of the state's own.
    lock: how each row is locked.
    """
    chosen = (condition or FILTERS[state]).format(queue=queue, priority="p.priority")
    found = f"SELECT {what} AS what FROM {job} AS job WHERE {chosen} ORDER BY job.{KEYS[state]} LIMIT {limit}{lock}"
    if not goes_by_priority(state):
        return found
    # A loop that is not sorted: it stops, and so locks no further row, once the limit is reached.
    return f"SELECT first.what FROM {PRIORITIES} JOIN LATERAL ({found}) AS first ON true LIMIT {limit}"


def walk(job: str, state: JobState, columns: str) -> str:
    """
    Return a SELECT of the jobs in *state* after the position of `key` and `id`.

    Where the due time is ahead, one bound says both: of two, the server begins a scan at the first, and so each page of
    a long list at the present moment, or the first page at the longest ready job.
    """
    type_ = "uuid" if state is JobState.LEASED else "bigint"
    position = f"%(key)s::{type_}, %(id)s::text"
    if state in AHEAD:
        position = (
            f"greatest(%(key)s::bigint, {NOW} + 1), CASE WHEN %(key)s::bigint > {NOW} THEN %(id)s::text ELSE '' END"
        )
    chosen = AHEAD.get(state, FILTERS[state]).format(queue="%(queue)s::text", priority="%(priority)s::smallint")
    return f"""
SELECT {columns} FROM {job} AS job
WHERE {chosen} AND (job.{KEYS[state]}, job.id) > ({position})
ORDER BY job.{KEYS[state]}, job.id LIMIT %(limit)s::integer"""
