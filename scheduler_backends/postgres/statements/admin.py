"""Statements of cancel, requeue, pause, resume and purge."""

from __future__ import annotations

from scheduler.states import JobState
from scheduler_backends.postgres.statements.parts import IS_HELD, LOCKED, NOW, deletion, first_of
from scheduler_backends.sql.states import CANCELLED, CODES, DEAD, SCHEDULED, WAITING


class AdminStatements:
    """Statements that move jobs by id and change whole queues."""

    def __init__(self, job: str, queue: str) -> None:
        def move(may_move: str, change: str) -> str:
            # Returns for each id that exists: the state before, whether the job was due, and whether it moved.
            return f"""
WITH held AS MATERIALIZED (
    SELECT job.queue, job.id, job.state, job.due_at, {may_move} AS moves FROM {job} AS job
    WHERE job.queue = %(queue)s::text AND job.id = any(%(ids)s::text[])
    {LOCKED}
), moved AS (
    {change} held WHERE {IS_HELD} AND held.moves RETURNING job.id
)
SELECT held.id, held.state, held.due_at <= {NOW}, moved.id IS NOT NULL
FROM held LEFT JOIN moved ON held.id = moved.id"""

        waits = f"job.state IN {WAITING}"
        self.cancel = move(waits, f"UPDATE {job} AS job SET state = {CANCELLED}, finished_at = {NOW} FROM")

        # If cancelled jobs are not kept.
        self.cancel_deleting = move(waits, f"DELETE FROM {job} AS job USING")

        # Not `state = DEAD`: an unknown state counts as dead too. The errors stay.
        others = ", ".join(str(code) for code in CODES.values() if code != DEAD)
        self.requeue = move(
            f"job.state NOT IN ({others})",
            f"UPDATE {job} AS job"
            f" SET state = {SCHEDULED}, due_at = {NOW}, finished_at = NULL, attempts = 0, crashes = 0 FROM",
        )

        # For each state: deletes up to `limit` jobs of a queue that are in it.
        chosen = {"what": "job.ctid", "queue": "%(queue)s::text", "limit": "%(limit)s::integer"}
        self.purge: dict[JobState, str] = {
            state: deletion(job, first_of(job, state, **chosen, lock=" FOR UPDATE OF job SKIP LOCKED"))
            for state in JobState
            if state is not JobState.LEASED
        }

        self.set_paused = f"""
INSERT INTO {queue} (name, paused) VALUES (%(name)s::text, %(paused)s::boolean)
ON CONFLICT (name) DO UPDATE SET paused = excluded.paused"""
