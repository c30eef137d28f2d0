"""Get, list, stats and ping. Each costs a few index look-ups and the rows that it returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from scheduler.jobs import Job
from scheduler.queues import QueueStats
from scheduler.states import JobState
from scheduler_backends.postgres.store import Store
from scheduler_backends.sql.columns import JobRow
from scheduler_backends.sql.counting import queue_stats
from scheduler_backends.sql.cursors import (
    KEYS,
    first_position,
    goes_by_priority,
    next_priority,
    read_place,
    write_place,
)
from scheduler_backends.sql.decoding import job_of
from scheduler_backends.sql.slices import slices

_LEAST_TOKEN: Final = "0" * 32


class ReadHooks:
    """Hooks that read jobs and queues."""

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
        position = first_position(state, _LEAST_TOKEN) if place is None else read_place(state, place, any_value=False)
        statement, key = self._store.statements.reads.walk[state], KEYS[state]
        jobs: list[Job] = []
        while True:
            # One row more than needed shows whether there is a next page.
            wanted = limit - len(jobs) + 1
            chosen = {"priority": position[0]} if goes_by_priority(state) else {}
            rows = self._store.run(statement, queue=queue, key=position[1], id=position[2], limit=wanted, **chosen)
            for now, *columns in rows[: wanted - 1]:
                row = JobRow._make(columns)
                jobs.append(job_of(row, now))
                position = position[0], getattr(row, key), row.id
            if len(rows) == wanted:
                return jobs, write_place(position)
            following = next_priority(state, position)
            if following is None:
                return jobs, None
            position = following

    def _stats(self, queues: Sequence[str] | None) -> Sequence[QueueStats]:
        """Return the statistics of *queues*. None = every queue that has jobs, was enqueued to, or was paused."""
        statements = self._store.statements.reads
        names = [name for (name,) in self._store.run(statements.known_queues)] if queues is None else queues
        rows = self._store.run(statements.stats, queues=sorted(names))
        return [
            queue_stats(name, paused=paused, found=dict(zip(JobState, counts, strict=True)), oldest=oldest)
            for name, paused, oldest, *counts in sorted(rows)
        ]

    def ping(self) -> None:
        self._store.database.run("SELECT 1", {})
