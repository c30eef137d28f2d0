"""Statements of lease and renew."""

from __future__ import annotations

from scheduler_backends.postgres.statements.parts import (
    FREE,
    IS_HELD,
    LOCKED,
    NOW,
    ONE_MORE,
    PRIORITIES,
    QUEUES,
    READY,
    after,
    held,
    is_row,
    row_of,
)
from scheduler_backends.sql.slices import SLICE
from scheduler_backends.sql.states import DEAD, LEASED


class LeaseStatements:
    """Statements that lease ready jobs and extend leases."""

    def __init__(self, job: str, queue: str) -> None:
        # Leases up to `limit` jobs, at most `share` of each queue, and returns the jobs that have the token already.
        #
        # These are nested loops without a sort, so they stop, and lock no further row, once the limit is reached. The
        # innermost limit is a literal, so that the planner expects few rows, and a power of two, so that there are few
        # texts. The paused queues are an array, which is read once and cannot turn the loops into another join.
        ready = READY.format(queue="q.name", priority="p.priority")
        self.lease = {
            most: f"""
WITH held AS (
    SELECT {row_of("job")} FROM {job} AS job
    WHERE job.state = {LEASED} AND job.queue = any(%(queues)s::text[]) AND job.lease_token = %(token)s::uuid
), claimed AS (
    UPDATE {job} AS job SET state = {LEASED}, attempts = {ONE_MORE.format("attempts")}, lease_token = %(token)s::uuid,
        lease_owner = %(worker_id)s::text, lease_until = {after("%(duration)s::bigint")}
    WHERE job.ctid = any(array(
        SELECT share.place
        FROM {QUEUES} JOIN LATERAL (
            SELECT ready.place
            FROM {PRIORITIES} JOIN LATERAL (
                SELECT job.ctid AS place FROM {job} AS job
                WHERE {ready}
                ORDER BY job.due_at, job.id LIMIT {most} FOR UPDATE SKIP LOCKED
            ) AS ready ON true
            LIMIT %(share)s::integer
        ) AS share ON true
        WHERE q.name <> all(array(SELECT name FROM {queue} WHERE paused))
        LIMIT greatest(%(limit)s::integer - (SELECT pg_catalog.count(*) FROM held), 0)
    ))
    RETURNING {row_of("job")}
)
SELECT {NOW}, claimed.* FROM claimed UNION ALL SELECT {NOW}, held.* FROM held"""
            for most in (1 << bits for bits in range((SLICE - 1).bit_length() + 1))
        }

        # No index contains lease_until, so the update is heap-only.
        self.renew = f"""
{held(job)}
UPDATE {job} AS job SET lease_until = {after("%(duration)s::bigint")} FROM held WHERE {IS_HELD} RETURNING held.n"""

        # For jobs that this call leased and could not read. Only the columns set here change.
        self.bury_unreadable = f"""
WITH held AS MATERIALIZED (
    SELECT job.queue, job.id
    FROM unnest(%(queues)s::text[], %(ids)s::text[]) AS asked (queue, id)
    JOIN {job} AS job ON {is_row("asked")} AND job.lease_token = %(token)s::uuid
    {LOCKED}
)
UPDATE {job} AS job SET state = {DEAD}, finished_at = {NOW}, {FREE} FROM held WHERE {IS_HELD} RETURNING job.id"""
