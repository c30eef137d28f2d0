"""enqueue, in a transaction of our own or in the caller's."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scheduler.abilities import WakeReason
from scheduler.errors import BackendError, ConfigError
from scheduler.jobs import NewJob
from scheduler.leases import Enqueued
from scheduler_backends.sql.arguments import check_new_jobs, slices
from scheduler_backends.sql.connections import Execute, Parameters, executor
from scheduler_backends.sql.decoding import job_of
from scheduler_backends.sql.rows import WAKE_HORIZON, Insertion, JobRow, insertion, stored_job
from scheduler_backends.sqlite.errors import OUTSIDE_ERRORS, translated
from scheduler_backends.sqlite.store import Store, whatever_its_text


class Storing:
    """→ scheduled, or ready when due."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: set[str] = set()  # queues that this process has entered; entering one twice is harmless

    @whatever_its_text
    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        """See `Backend.enqueue`."""
        answers: list[Enqueued] = []
        for part in slices(check_new_jobs(jobs)):
            queues = {job.queue for job in part}
            unknown = queues - self._known
            with self._store.file.writing(single=len(part) == 1 and not unknown) as connection:
                now = self._store.now()
                for queue in unknown:
                    connection.execute(self._store.statements.know_queue, (queue,))
                rows = [insertion(job, now) for job in part]
                answers += self._store_in(connection, part, rows)
            if unknown:
                self._known |= unknown
            soon = [row for row in rows if _is_soon(row, now)]
            news = WakeReason.JOBS_READY if all(row.due_at <= now for row in soon) else WakeReason.ANY
            self._store.waiters.notify({row.queue for row in soon}, news)
        return answers

    def enqueue_with(self, connection: object, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        """In the caller's transaction: commits nothing. Waiters notice the commit by themselves."""
        checked = check_new_jobs(jobs)
        execute = executor(connection, vendor="sqlite", driver=sqlite3.Connection, of_driver=_run_on)
        try:
            self._check_file(execute)
            if not self._store.file.is_open:  # else its schema was seen to
                self._store.file.prepare(execute)
            now = self._store.now()
            rows = [insertion(job, now) for job in checked]
            return [
                self._answer(execute, job, row, is_stored=execute(self._store.statements.insert, row).rowcount == 1)
                for job, row in zip(checked, rows, strict=True)
            ]
        except Exception as error:
            cause = getattr(error, "orig", error)  # SQLAlchemy wraps the driver's
            if isinstance(cause, OUTSIDE_ERRORS):
                raise translated(cause, self._store.file.path) from error
            raise

    def _store_in(
        self, connection: sqlite3.Connection, jobs: Sequence[NewJob], rows: Sequence[Insertion]
    ) -> list[Enqueued]:
        insert = self._store.statements.insert
        # Alone it needs no transaction around it, which executemany would begin.
        cursor = connection.execute(insert, rows[0]) if len(rows) == 1 else connection.executemany(insert, rows)
        all_new = cursor.rowcount == len(rows)
        return [
            self._answer(connection.execute, job, row, is_stored=all_new) for job, row in zip(jobs, rows, strict=True)
        ]

    def _answer(self, execute: Execute, job: NewJob, row: Insertion, *, is_stored: bool) -> Enqueued:
        if is_stored:
            return Enqueued(job=stored_job(job, row.run_at, row.due_at, row.created_at), is_new=True)
        found = execute(self._store.statements.find, (job.queue, job.id)).fetchone()
        if found is None:
            raise BackendError(f"job {job.id} was neither stored nor found")
        kept = JobRow._make(found)
        return Enqueued(job=job_of(kept, row.created_at), is_new=kept.nonce == job.nonce)

    def _check_file(self, execute: Execute) -> None:
        _, _, path = execute("PRAGMA database_list", ()).fetchone() or ("", "", "")
        ours = self._store.file.path
        if not path or not Path(path).samefile(ours):
            raise ConfigError("connection", f"is one to {path or 'no file'}, and this store's jobs are in {ours}")


def _is_soon(row: Insertion, now: int) -> bool:
    return row.due_at <= now + WAKE_HORIZON


class _Rows:
    """What a statement returned, read while the connection gives text as str."""

    def __init__(self, cursor: sqlite3.Cursor) -> None:
        self.rowcount = cursor.rowcount
        self._rows = cursor.fetchall() if cursor.description else []

    def fetchone(self) -> Sequence[Any] | None:
        return self._rows.pop(0) if self._rows else None

    def fetchall(self) -> Sequence[Sequence[Any]]:
        rows, self._rows = self._rows, []
        return rows


def _run_on(connection: sqlite3.Connection) -> Execute:
    def run(statement: str, parameters: Parameters) -> _Rows:
        # Whatever the caller's own rows and texts look like; both are left as they were.
        own, connection.text_factory = connection.text_factory, str
        try:
            cursor = connection.cursor()
            cursor.row_factory = None
            return _Rows(cursor.execute(statement, parameters))
        finally:
            connection.text_factory = own

    return run
