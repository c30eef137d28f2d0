"""get, list and stats. None of them costs more than a few indexed probes and the rows that it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scheduler.jobs import Job
from scheduler.limits import check_limit, check_queues
from scheduler.queues import Page, QueueStats
from scheduler.states import JobState
from scheduler_backends.sql.arguments import SLICE, check_ids, check_queue, is_possible_id, slices
from scheduler_backends.sql.counting import CAP, queue_stats
from scheduler_backends.sql.cursors import first_position, next_priority, read_cursor, write_cursor
from scheduler_backends.sql.decoding import job_of
from scheduler_backends.sql.rows import JobRow
from scheduler_backends.sqlite.store import Store, whatever_its_text


class Reads:
    """What the store tells of its jobs."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @whatever_its_text
    def get(self, queue: str, ids: Sequence[str]) -> Mapping[str, Job]:
        """See `Backend.get`."""
        check_queue(queue)
        wanted = [id for id in check_ids(ids) if is_possible_id(id)]
        jobs = {}
        for part in slices(wanted):  # a lease, too, reads before it writes
            with self._store.file.reading() as connection:
                now = self._store.now()
                for id in part:
                    found = connection.execute(self._store.statements.find, (queue, id)).fetchone()
                    if found is not None:
                        jobs[id] = job_of(JobRow._make(found), now)
        return jobs

    @whatever_its_text
    def list(self, queue: str, state: JobState, *, cursor: str | None = None, limit: int = 100) -> Page:
        """See `Backend.list`."""
        check_queue(queue)
        state = JobState(state)
        check_limit(limit)
        position = first_position(state) if cursor is None else read_cursor(queue, state, cursor)
        statement = self._store.statements.walk[state]
        jobs: list[Job] = []
        now = self._store.now()
        while True:
            # One more than asked for tells whether there is a next page.
            wanted = min(limit - len(jobs), SLICE) + 1
            asked = {"queue": queue, "now": now, "limit": wanted}
            asked |= zip(("priority", "key", "id"), position, strict=True)
            with self._store.file.reading() as connection:
                rows = connection.execute(statement, asked).fetchall()
            for *columns, key in rows[: wanted - 1]:
                row = JobRow._make(columns)
                jobs.append(job_of(row, now))
                position = position[0], key, row.id
            if len(rows) == wanted:
                if len(jobs) < limit:
                    continue
                return Page(jobs=tuple(jobs), cursor=write_cursor(queue, state, position))
            following = next_priority(state, position)
            if following is None:
                return Page(jobs=tuple(jobs), cursor=None)
            position = following

    @whatever_its_text
    def stats(self, queues: Sequence[str] | None = None) -> Sequence[QueueStats]:
        """See `Backend.stats`. Queues that the store knows: every one that has jobs, was enqueued to, or paused."""
        names = None if queues is None else check_queues(queues)
        with self._store.file.reading() as connection:
            if names is None:
                found = connection.execute(self._store.statements.known_queues)
                names = tuple(name for (name,) in found if is_possible_id(name))  # no call could name another
            paused = {name for (name,) in connection.execute(self._store.statements.paused)}
        return [self._numbers(name, paused=name in paused) for name in sorted(names)]

    def _numbers(self, queue: str, *, paused: bool) -> QueueStats:
        now = self._store.now()
        found = {}
        with self._store.file.reading() as connection:
            for state, statement in self._store.statements.counts.items():
                cap = 2 * CAP if state is JobState.SCHEDULED else CAP
                (found[state],) = connection.execute(statement, {"queue": queue, "now": now, "cap": cap}).fetchone()
            (oldest,) = connection.execute(self._store.statements.oldest_ready, {"queue": queue, "now": now}).fetchone()
        return queue_stats(queue, paused=paused, found=found, oldest=None if oldest is None else now - oldest)
