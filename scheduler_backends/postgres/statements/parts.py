"""
SQL that several statements share. In all of them `job` is an alias of the table of jobs.

Functions are named with their schema: a search_path may lead to others of the same names. What looks like a function
and has no schema is a part of the language.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler.jobs import Priority
from scheduler.limits import MAX_ERRORS
from scheduler.states import JobState
from scheduler_backends.sql.checks import MAX_COUNTER
from scheduler_backends.sql.columns import COLUMNS
from scheduler_backends.sql.cursors import KEYS, goes_by_priority
from scheduler_backends.sql.moments import EARLIEST, LATEST
from scheduler_backends.sql.states import CODES, FINISHED, LEASED, RETRY_WAIT, SCHEDULED, WAITING

SEPARATOR: Final = "\1"
"""Between the elements of an array that is passed as one text. No name contains a control character."""

# The server's clock, as it was when the statement began, or a test's. Not now(), which does not change in a
# caller's transaction. Not clock_timestamp(): it may change from row to row, so no index condition could use it.
NOW: Final = "coalesce(%(now)s::bigint, (extract(epoch FROM pg_catalog.statement_timestamp()) * 1000000)::bigint)"

PRIORITIES: Final = f"(VALUES {', '.join(f'({priority:d})' for priority in Priority)}) AS p (priority)"
"""A row for each priority: an index that begins with queue and priority is probed for each, and never scanned."""

QUEUES: Final = "pg_catalog.unnest(%(queues)s::text[]) AS q (name)"
"""A row for each queue of the call."""

FREE: Final = "lease_token = NULL, lease_owner = NULL, lease_until = NULL"
"""Ends the lease. Only the token shows who has the lease, so every move out of leased clears it."""

EXPIRY: Final = f"CASE WHEN job.lease_until BETWEEN {EARLIEST} AND {LATEST} THEN job.lease_until ELSE {EARLIEST} END"
"""When a lease ends; one whose end is no moment has ended."""

ONE_MORE: Final = f"least(job.{{}}, {MAX_COUNTER - 1}) + 1"
"""A counter and one, within the range of its column."""

LOCKED: Final = "ORDER BY job.queue, job.id FOR UPDATE OF job"
"""
Locks rows in the order of their keys, before anything is changed.

All statements lock in this order, so that two calls never wait for each other; unordered arrays deadlocked. A statement
that waited for another's change reads the row again, and leaves it out unless the conditions are true then.
"""


# Which rows are in a state, of one queue and, where the index has it, one priority. Each condition repeats the
# predicate of the index that finds the rows.
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


def after(micros: str) -> str:
    """Return the moment that much later than now, at most the last one of a datetime."""
    return f"least({NOW} + {micros}, {LATEST})"


def row_of(source: str) -> str:
    """Return the columns of a `JobRow`; documents and the token as text."""
    return ", ".join(
        f"{source}.{name}{'::text' if column.type in ('jsonb', 'uuid') else ''}" for name, column in COLUMNS.items()
    )


def is_row(other: str) -> str:
    """
    Return the condition that `job` is the row with queue and id of *other*, for a join with many rows.

    It is written so that only a look-up in the primary key can serve it. With `=`, the planner also joins by hash or in
    the order of a key. If the table was empty when it was last analyzed, it then reads all rows and compares each with
    each lease: seconds for 10,000 rows.
    """
    return f"job.queue = any(ARRAY[{other}.queue]) AND job.id = any(ARRAY[{other}.id])"


IS_HELD: Final = is_row("held")


def held(job: str, **arrays: str) -> str:
    """
    Return a CTE `held` of the rows of the call's leases, locked. n: the position in the call.

    arrays: further arrays of the call, by name, and the types of their elements. Queues, ids and tokens come as one
    text each: the driver takes long for arrays. The rows are found by the token only: `state = leased` beside it led to
    a plan half as fast. Each is looked up by itself, whatever size the planner assumes for the table: see `is_row`.
    """
    columns = "".join(f", asked.{name}" for name in arrays)
    names = "".join(f", {name}" for name in arrays)
    values = "".join(f", %({name})s::{type_}[]" for name, type_ in arrays.items())
    queues, ids, tokens = (
        f"pg_catalog.string_to_array(%({name})s::text, pg_catalog.chr({ord(SEPARATOR)}))"
        for name in ("queues", "ids", "tokens")
    )
    return f"""WITH held AS MATERIALIZED (
    SELECT asked.n, job.queue, job.id{columns}
    FROM (
        SELECT * FROM unnest({queues}, {ids}, {tokens}::uuid[]{values}) WITH ORDINALITY
            AS asked (queue, id, token{names}, n)
        ORDER BY asked.queue COLLATE "C", asked.id COLLATE "C"
    ) AS asked CROSS JOIN LATERAL (
        SELECT job.queue, job.id FROM {job} AS job
        WHERE job.queue = asked.queue AND job.id = asked.id AND job.lease_token = asked.token FOR UPDATE
    ) AS job
)"""


def with_error(error: str) -> str:
    """
    Return the job's errors with *error* (JSON text, NULL = none) appended, its attempt and the moment added.

    Errors that are no array stay as they are: a reader reports them.
    """
    return f"""CASE WHEN {error} IS NOT NULL AND (job.errors IS NULL OR pg_catalog.jsonb_typeof(job.errors) = 'array')
    THEN CASE WHEN job.errors IS NULL THEN '[]'::jsonb
              WHEN pg_catalog.jsonb_array_length(job.errors) >= {MAX_ERRORS} THEN job.errors - 0
              ELSE job.errors END
         || ({error}::jsonb || pg_catalog.jsonb_build_object('attempt', greatest(job.attempts, 0), 'at', {NOW}))
    ELSE job.errors END"""


def given_back(returned: str) -> str:
    """Return the attempts without *returned*, 0 or 1; what is no number of attempts stays as it is."""
    return f"job.attempts - CASE WHEN job.attempts > 0 THEN {returned} ELSE 0 END"


def deletion(job: str, doomed: str) -> str:
    """
    Return a statement that deletes the rows at the places that *doomed* selects, and returns their number.

    By place: the rows are locked, and skipped where another call has locked them.
    """
    return f"""
WITH deleted AS (
    DELETE FROM {job} AS job WHERE job.ctid = any(array(
    {doomed}
    )) RETURNING 1
)
SELECT pg_catalog.count(*) FROM deleted"""


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
