"""Statements of promote, recover and trim."""

from __future__ import annotations

from scheduler_backends.postgres.statements.parts import (
    EXPIRY,
    FREE,
    NOT_DUE,
    NOW,
    ONE_MORE,
    PRIORITIES,
    QUEUES,
    deletion,
    with_error,
)
from scheduler_backends.sql.checks import STRAY
from scheduler_backends.sql.states import DEAD, FINISHED, LEASED, SCHEDULED


class MaintenanceStatements:
    """Statements for due times, expired leases, stray jobs, and jobs whose retention has ended."""

    def __init__(self, job: str) -> None:
        # Microseconds until the next job is due, NULL = no job waits for its due time.
        self.next_due = f"""
SELECT pg_catalog.min(first.due_at) - {NOW}
FROM {QUEUES} JOIN {PRIORITIES} ON true JOIN LATERAL (
    SELECT job.due_at FROM {job} AS job
    WHERE {NOT_DUE.format(queue="q.name", priority="p.priority")}
    ORDER BY job.due_at LIMIT 1
) AS first ON true"""

        # Microseconds until the next lease expires, 0 or less = one has, NULL = no lease. Reads each lease once.
        self.next_expiry = f"""
SELECT pg_catalog.min(first.at) - {NOW}
FROM {QUEUES} JOIN LATERAL (
    SELECT pg_catalog.min({EXPIRY}) AS at FROM {job} AS job WHERE job.queue = q.name AND job.state = {LEASED}
) AS first ON true"""

        # Rows that another call has locked are skipped: it settles or renews the lease, which then has not expired any
        # more. So this statement never waits, and needs no order of locks. It uses the order of the index, so that the
        # table is not scanned. The rows are found by an array of ctids: then no plan can compare each lease with each
        # other, whatever number of leases the planner assumes.
        expired = f"""
WITH expired AS MATERIALIZED (
    SELECT found.place
    FROM {QUEUES} JOIN LATERAL (
        SELECT job.ctid AS place FROM {job} AS job
        WHERE job.queue = q.name AND job.state = {LEASED} AND {EXPIRY} <= {NOW}
        ORDER BY job.lease_token LIMIT %(limit)s::integer FOR UPDATE SKIP LOCKED
    ) AS found ON true
    LIMIT %(limit)s::integer
)"""
        is_expired = "job.ctid = any(array(SELECT expired.place FROM expired))"
        used_up = "job.attempts > job.max_retries"
        revived = f"""
    UPDATE {job} AS job SET state = CASE WHEN {used_up} THEN {DEAD} ELSE {SCHEDULED} END, due_at = {NOW},
        finished_at = CASE WHEN {used_up} THEN {NOW} END, crashes = {ONE_MORE.format("crashes")},
        errors = {with_error("%(error)s::text")}, {FREE}
    WHERE {is_expired}"""
        counts = f"""
SELECT pg_catalog.count(*) FILTER (WHERE moved.state = {SCHEDULED}),
       pg_catalog.count(*) FILTER (WHERE moved.state = {DEAD}),
       pg_catalog.array_agg(DISTINCT moved.queue) FILTER (WHERE moved.state = {SCHEDULED})
FROM moved"""

        # Recovers up to `limit` leases. Returns the numbers of ready and dead jobs, and the queues of the ready ones.
        self.recover = f"""{expired},
moved AS ({revived}
    RETURNING job.queue, job.state
){counts}"""

        # The same if dead jobs are not kept.
        self.recover_deleting = f"""{expired},
revived AS ({revived} AND NOT {used_up}
    RETURNING job.queue, job.state
), buried AS (
    DELETE FROM {job} AS job WHERE {is_expired} AND {used_up} RETURNING job.queue, {DEAD} AS state
), moved AS (
    SELECT queue, state FROM revived UNION ALL SELECT queue, state FROM buried
){counts}"""

        # Buries up to `limit` jobs that no worker would ever find. Returns their queues and ids.
        is_finished = f"job.state IN {FINISHED}"
        self.bury_stray = f"""
UPDATE {job} AS job SET errors = CASE WHEN {is_finished} THEN job.errors ELSE {with_error("%(error)s::text")} END,
    state = CASE WHEN {is_finished} THEN job.state ELSE {DEAD} END, finished_at = {NOW}, {FREE}
WHERE job.ctid = any(array(
    SELECT job.ctid FROM {job} AS job WHERE job.queue = any(%(queues)s::text[]) AND {STRAY}
    LIMIT %(limit)s::integer FOR UPDATE SKIP LOCKED
))
RETURNING job.queue, job.id"""

        finished = f"job.state = %(state)s::smallint AND {is_finished}"

        # Those of the given queues that have a job to delete in the state.
        # Not EXISTS, which ignores the order: see `first_of`.
        self.outlived = f"""
SELECT q.name FROM {QUEUES}
WHERE (
    SELECT job.finished_at FROM {job} AS job WHERE job.queue = q.name AND {finished}
    ORDER BY job.finished_at LIMIT 1
) <= {NOW} - %(kept)s::bigint"""

        # Deletes up to `limit` jobs that finished in the state at least `kept` microseconds ago.
        self.trim = deletion(
            job,
            f"""SELECT job.ctid FROM {job} AS job
    WHERE job.queue = %(queue)s::text AND {finished} AND job.finished_at <= {NOW} - %(kept)s::bigint
    ORDER BY job.finished_at LIMIT %(limit)s::integer FOR UPDATE SKIP LOCKED""",
        )
