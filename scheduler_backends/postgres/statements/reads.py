"""Statements of get, list and stats."""

from __future__ import annotations

from scheduler.states import JobState
from scheduler_backends.postgres.statements.parts import NOT_DUE, NOW, PRIORITIES, QUEUES, READY, first_of, row_of, walk
from scheduler_backends.sql.counting import CAP
from scheduler_backends.sql.moments import EARLIEST


class ReadStatements:
    """Statements that read jobs and queues."""

    def __init__(self, job: str, queue: str) -> None:
        columns = f"{NOW}, {row_of('job')}"

        self.get = f"""
SELECT {columns} FROM {job} AS job WHERE job.queue = %(queue)s::text AND job.id = any(%(ids)s::text[])"""

        # For each state: its jobs after a position.
        self.walk = {state: walk(job, state, columns) for state in JobState}

        # For each queue: its name, whether it is paused, the age of its oldest ready job, and a capped count of each
        # state. The count of SCHEDULED includes the waiting retries, because no index distinguishes them.
        counts = {state: first_of(job, state, what="1", queue="q.name", limit=str(CAP)) for state in JobState}
        counts[JobState.SCHEDULED] = first_of(
            job, JobState.SCHEDULED, what="1", queue="q.name", limit=str(2 * CAP), condition=NOT_DUE
        )
        numbers = ",\n    ".join(f"(SELECT pg_catalog.count(*) FROM ({rows}) AS counted)" for rows in counts.values())
        self.stats = f"""
SELECT q.name, EXISTS (SELECT FROM {queue} AS queue WHERE queue.name = q.name AND queue.paused),
    {NOW} - (
        SELECT pg_catalog.min(greatest(first.due_at, {EARLIEST}))
        FROM {PRIORITIES} JOIN LATERAL (
            SELECT job.due_at FROM {job} AS job WHERE {READY.format(queue="q.name", priority="p.priority")}
            ORDER BY job.due_at LIMIT 1
        ) AS first ON true
    ),
    {numbers}
FROM {QUEUES}"""

        # Every queue that has jobs, was enqueued to or was paused. Finding a queue by its jobs takes one index probe.
        self.known_queues = f"""
WITH RECURSIVE used (name) AS (
    SELECT pg_catalog.min(job.queue) FROM {job} AS job
    UNION ALL
    SELECT (SELECT pg_catalog.min(job.queue) FROM {job} AS job WHERE job.queue > used.name) FROM used
    WHERE used.name IS NOT NULL
)
SELECT name FROM used WHERE name IS NOT NULL UNION SELECT name FROM {queue}"""
