"""enqueue, in a transaction of our own or in the caller's."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from scheduler.errors import BackendError
from scheduler.jobs import NewJob
from scheduler.leases import Enqueued
from scheduler_backends.sql.arguments import check_new_jobs, slices
from scheduler_backends.sql.rows import WAKE_HORIZON, Insertion, Row, insertion, job_of, new_job
from scheduler_backends.sqlite.store import Store


class Storing:
    """→ scheduled, or ready when due."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: set[str] = set()  # queues that this process has entered; entering one twice is harmless

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        """See `Backend.enqueue`."""
        answers: list[Enqueued] = []
        for part in slices(check_new_jobs(jobs)):
            queues = {job.queue for job in part}
            with self._store.file.writing() as connection:
                now = self._store.now()
                for queue in queues - self._known:
                    connection.execute(self._store.statements.know_queue, (queue,))
                rows, stored = self._store_in(connection, part, now)
            self._known |= queues
            self._store.ring(soon(rows, now))
            answers.extend(stored)
        return answers

    def enqueue_in(self, connection: sqlite3.Connection, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        """In whatever transaction *connection* is in: commits nothing and rings nobody."""
        checked = check_new_jobs(jobs)
        return self._store_in(connection, checked, self._store.now())[1] if checked else []

    def _store_in(
        self, connection: sqlite3.Connection, jobs: Sequence[NewJob], now: int
    ) -> tuple[list[Insertion], list[Enqueued]]:
        rows = [insertion(job, now) for job in jobs]
        if connection.executemany(self._store.statements.insert, rows).rowcount == len(rows):
            return rows, [Enqueued(job=new_job(job, row), is_new=True) for job, row in zip(jobs, rows, strict=True)]
        return rows, [self._found(connection, job, now) for job in jobs]

    def _found(self, connection: sqlite3.Connection, job: NewJob, now: int) -> Enqueued:
        found = connection.execute(self._store.statements.find, (job.queue, job.id)).fetchone()
        if found is None:  # within one transaction nobody can have deleted it
            raise BackendError(f"job {job.id} was neither stored nor found")
        row = Row._make(found)
        return Enqueued(job=job_of(row, now), is_new=row.nonce == job.nonce)


def soon(rows: Iterable[Insertion], now: int) -> set[str]:
    """The queues in which something is due so soon that a fallback poll might see it too late."""
    return {row.queue for row in rows if row.due_at <= now + WAKE_HORIZON}
