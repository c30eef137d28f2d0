"""get, list and stats. None of them costs more than a few indexed probes and the rows that it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scheduler.jobs import Job
from scheduler.limits import check_limit, check_queues
from scheduler.queues import Page, QueueStats
from scheduler.states import JobState
from scheduler_backends.postgres.store import Store
from scheduler_backends.sql.arguments import check_ids, check_queue, is_possible_id, slices
from scheduler_backends.sql.counting import queue_stats
from scheduler_backends.sql.cursors import first_position, goes_by_priority, next_priority, read_cursor, write_cursor
from scheduler_backends.sql.decoding import job_of
from scheduler_backends.sql.rows import JobRow


class Reads:
    """What the store tells of its jobs."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._statements = store.statements.reads

    def get(self, queue: str, ids: Sequence[str]) -> Mapping[str, Job]:
        """See `Backend.get`."""
        check_queue(queue)
        jobs = {}
        for part in slices([id for id in check_ids(ids) if is_possible_id(id)]):
            for now, *columns in self._store.run(self._statements.get, queue=queue, ids=list(part)):
                job = job_of(JobRow._make(columns), now)
                jobs[job.id] = job
        return jobs

    def list(self, queue: str, state: JobState, *, cursor: str | None = None, limit: int = 100) -> Page:
        """See `Backend.list`."""
        check_queue(queue)
        state = JobState(state)
        check_limit(limit)
        position = first_position(state) if cursor is None else read_cursor(queue, state, cursor)
        statement = self._statements.walk(state)
        jobs: list[Job] = []
        while True:
            # One more than asked for tells whether there is a next page.
            wanted = limit - len(jobs) + 1
            chosen = {"priority": position[0]} if goes_by_priority(state) else {}
            rows = self._store.run(statement, queue=queue, key=position[1], id=position[2], limit=wanted, **chosen)
            for now, key, *columns in rows[: wanted - 1]:
                row = JobRow._make(columns)
                jobs.append(job_of(row, now))
                position = position[0], key, row.id
            if len(rows) == wanted:
                return Page(jobs=tuple(jobs), cursor=write_cursor(queue, state, position))
            following = next_priority(state, position)
            if following is None:
                return Page(jobs=tuple(jobs), cursor=None)
            position = following

    def stats(self, queues: Sequence[str] | None = None) -> Sequence[QueueStats]:
        """See `Backend.stats`. Queues that the store knows: every one that has jobs, was enqueued to, or paused."""
        if queues is None:
            names = [name for (name,) in self._store.run(self._statements.known_queues)]
        else:
            names = list(check_queues(queues))
        rows = self._store.run(self._statements.stats, queues=sorted(names))
        return [
            queue_stats(name, paused=paused, found=dict(zip(JobState, counts, strict=True)), oldest=oldest)
            for name, paused, oldest, *counts in sorted(rows)
        ]
