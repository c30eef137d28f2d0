"""get, list, stats and ping. None costs more than a few indexed probes and the rows that it returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scheduler.jobs import Job
from scheduler.queues import QueueStats
from scheduler.states import JobState
from scheduler_backends.postgres.store import Store
from scheduler_backends.sql.columns import JobRow
from scheduler_backends.sql.counting import queue_stats
from scheduler_backends.sql.cursors import Position, goes_by_priority, page_of
from scheduler_backends.sql.decoding import job_of
from scheduler_backends.sql.slices import slices


class ReadHooks:
    """What is asked about jobs and queues."""

    _store: Store

    def _get(self, queue: str, ids: Sequence[str]) -> Mapping[str, Job]:
        self._store.database.check_open()
        jobs = {}
        for part in slices(ids):
            for now, *columns in self._store.run(self._store.statements.reads.get, queue=queue, ids=list(part)):
                job = job_of(JobRow._make(columns), now)
                jobs[job.id] = job
        return jobs

    def _list(self, queue: str, state: JobState, place: str | None, limit: int) -> tuple[Sequence[Job], str | None]:
        statement = self._store.statements.reads.walk[state]

        def read(position: Position, limit: int) -> list[tuple[int, JobRow]]:
            priority, key, id = position
            chosen = {"priority": priority} if goes_by_priority(state) else {}
            rows = self._store.run(statement, queue=queue, key=key, id=id, limit=limit, **chosen)
            return [(now, JobRow._make(columns)) for now, *columns in rows]

        return page_of(state, place, limit, read, most=limit)

    def _stats(self, queues: Sequence[str] | None) -> Sequence[QueueStats]:
        """Without *queues*: of all that have jobs, were enqueued to, or paused."""
        statements = self._store.statements.reads
        names = [name for (name,) in self._store.run(statements.known_queues)] if queues is None else queues
        rows = self._store.run(statements.stats, queues=sorted(names))
        return [
            queue_stats(name, paused=paused, found=dict(zip(JobState, counts, strict=True)), oldest=oldest)
            for name, paused, oldest, *counts in sorted(rows)
        ]

    def ping(self) -> None:
        self._store.database.run("SELECT 1", {})
