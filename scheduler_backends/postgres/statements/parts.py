"""
SQL that several statements share. In all of them `job` is an alias of the jobs table.

Functions are qualified with pg_catalog, because a search_path may contain other functions with the same names.
Constructs without it, such as coalesce or unnest of several arrays, are part of the language.
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
"""Separates the elements of an array that is passed as one text. No name contains a control character."""

# The time of a test's clock, or the server's time at the start of the statement. Not now(), which does not change
# within a caller's transaction. Not clock_timestamp(), which may change from row to row, so that no index condition
# could use it.
NOW: Final = "coalesce(%(now)s::bigint, (extract(epoch FROM pg_catalog.statement_timestamp()) * 1000000)::bigint)"

PRIORITIES: Final = f"(VALUES {', '.join(f'({priority:d})' for priority in Priority)}) AS p (priority)"
"""A row for each priority. An index on queue and priority is then probed once for each, and never scanned."""

QUEUES: Final = "pg_catalog.unnest(%(queues)s::text[]) AS q (name)"
"""A row for each queue of the call."""

FREE: Final = "lease_token = NULL, lease_owner = NULL, lease_until = NULL"
"""Ends a lease. The token identifies the holder, so every move out of leased clears it."""

EXPIRY: Final = f"CASE WHEN job.lease_until BETWEEN {EARLIEST} AND {LATEST} THEN job.lease_until ELSE {EARLIEST} END"
"""When a lease expires. A lease whose expiry is not a valid moment has expired."""

ONE_MORE: Final = f"least(job.{{}}, {MAX_COUNTER - 1}) + 1"
"""A counter plus one, within the range of its column."""

LOCKED: Final = "ORDER BY job.queue, job.id FOR UPDATE OF job"
"""
Locks rows in the order of their keys, before anything is changed.

All statements that wait for locks use this order, because unordered arrays deadlocked. After a wait, the statement
reads the changed row again, and leaves it out if the conditions are no longer true.
"""


# Conditions for the rows of one queue in a state, and of one priority if the index contains it. Each condition repeats
# the predicate of its partial index literally, or the index is not used.
WAITS: Final = f"job.queue = {{queue}} AND job.priority = {{priority}} AND job.state IN {WAITING}"
_RETRIES: Final = f"job.queue = {{queue}} AND job.state = {RETRY_WAIT}"
_LATER: Final = f"job.due_at > {NOW}"

READY: Final = f"{WAITS} AND job.due_at <= {NOW}"
NOT_DUE: Final = f"{WAITS} AND {_LATER}"
"""Jobs that wait for their due time: scheduled jobs and retries."""

AHEAD: Final[Mapping[JobState, str]] = {
    JobState.SCHEDULED: f"{WAITS} AND job.state = {SCHEDULED}",
    JobState.RETRY_WAIT: _RETRIES,
}
"""Conditions of the states with a future due time, without the condition on the due time."""

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
    """Return SQL for the moment *micros* after now, limited to `LATEST`."""
    return f"least({NOW} + {micros}, {LATEST})"


def row_of(source: str) -> str:
    """Return the columns of a `JobRow` from *source*, with JSON and the lease token as text."""
    return ", ".join(
        f"{source}.{name}{'::text' if column.type in ('jsonb', 'uuid') else ''}" for name, column in COLUMNS.items()
    )


def is_row(other: str) -> str:
    """
    Return the condition that `job` is the row with the queue and id of *other*, for a join with many rows.

    In this form, only a look-up in the primary key can serve it. With `=`, the planner may also choose a hash or merge
    join. If the table was empty when it was last analyzed, such a plan reads all rows and compares each with each
    lease, which takes seconds for 10,000 rows.
    """
    return f"job.queue = any(ARRAY[{other}.queue]) AND job.id = any(ARRAY[{other}.id])"


IS_HELD: Final = is_row("held")


def held(job: str, **arrays: str) -> str:
    """
    Return a CTE `held` that locks the rows of the call's leases. Its column `n` is the position of a lease in the call.

    *arrays* are the names of further array parameters, and the types of their elements; they become columns too.

    Queues, ids and tokens are passed as one text each, because the driver is slow with arrays. The rows are found by
    the token without `state = leased`, which led to a plan half as fast. Each row is looked up separately, whatever
    size the planner assumes for the table: see `is_row`.
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
    Return SQL for the job's errors with *error* appended (JSON text, NULL = none). Attempt and moment are added to it.

    If the errors are not an array, they do not change; the job is reported as unreadable when it is read.
    """
    return f"""CASE WHEN {error} IS NOT NULL AND (job.errors IS NULL OR pg_catalog.jsonb_typeof(job.errors) = 'array')
    THEN CASE WHEN job.errors IS NULL THEN '[]'::jsonb
              WHEN pg_catalog.jsonb_array_length(job.errors) >= {MAX_ERRORS} THEN job.errors - 0
              ELSE job.errors END
         || ({error}::jsonb || pg_catalog.jsonb_build_object('attempt', greatest(job.attempts, 0), 'at', {NOW}))
    ELSE job.errors END"""


def given_back(returned: str) -> str:
    """Return SQL for the attempts minus *returned*, which is 0 or 1. An invalid number of attempts does not change."""
    return f"job.attempts - CASE WHEN job.attempts > 0 THEN {returned} ELSE 0 END"


def deletion(job: str, selection: str) -> str:
    """
    Return a statement that deletes the rows whose ctids *selection* selects, and returns their number.

    A ctid is safe here, because *selection* locks the rows, and skips those that another call has locked.
    """
    return f"""
WITH deleted AS (
    DELETE FROM {job} AS job WHERE job.ctid = any(array(
    {selection}
    )) RETURNING 1
)
SELECT pg_catalog.count(*) FROM deleted"""


def first_of(
    job: str, state: JobState, *, what: str, queue: str, limit: str, condition: str | None = None, lock: str = ""
) -> str:
    """
    Return a SELECT of *what* from up to *limit* jobs in *state*, by priority if the index contains it.

    The rows come in the order of the index, so that the table is not scanned. Without an order, and if many rows match,
    the plan may read the table from its beginning, past all rows that were stored earlier.

    Args:
        job: the jobs table.
        state: the state of the jobs.
        what: SQL for the column of the result.
        queue: SQL for the name of the queue.
        limit: SQL for the limit.
        condition: replaces the condition of the state.
        lock: the clause that locks each row.
    """
    chosen = (condition or FILTERS[state]).format(queue=queue, priority="p.priority")
    found = f"SELECT {what} AS what FROM {job} AS job WHERE {chosen} ORDER BY job.{KEYS[state]} LIMIT {limit}{lock}"
    if not goes_by_priority(state):
        return found
    # A loop without a sort, so it stops, and locks no further row, once the limit is reached.
    return f"SELECT first.what FROM {PRIORITIES} JOIN LATERAL ({found}) AS first ON true LIMIT {limit}"


def walk(job: str, state: JobState, columns: str) -> str:
    """
    Return a SELECT of the jobs in *state* after the position of `key` and `id`.

    For states with a future due time, the position and the current time are one bound. With two bounds, the server
    starts the scan at one of them: each page of a long list would start at the current time, or the first page at the
    oldest ready job.
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
