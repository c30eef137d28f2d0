"""Enqueue, in its own transaction or in the caller's."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from scheduler.abilities import WakeReason
from scheduler.errors import BackendError, ConfigError
from scheduler.jobs import NewJob
from scheduler.leases import Enqueued
from scheduler.limits import check_all
from scheduler_backends.sql.columns import COLUMNS, SQLITE_TYPES, JobRow
from scheduler_backends.sql.connections import Execute, Parameters, executor
from scheduler_backends.sql.decoding import is_repeat, job_of
from scheduler_backends.sql.encoding import Moments, moments_of, stored_job, values_of
from scheduler_backends.sql.moments import WAKE_HORIZON
from scheduler_backends.sql.slices import SLICE
from scheduler_backends.sqlite.connection import any_text
from scheduler_backends.sqlite.errors import OUTSIDE_ERRORS, cause_of, translated
from scheduler_backends.sqlite.store import Store

_IS_TEXT: Final = tuple(SQLITE_TYPES[column.type] == "TEXT" for column in COLUMNS.values())


class EnqueueHooks:
    """Hooks of enqueue. A new job becomes scheduled, or ready if it is due."""

    _store: Store

    def _enqueue(self, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        self._store.file.check_open()
        results: list[Enqueued] = []
        for start in range(0, len(jobs), SLICE):
            part = jobs[start : start + SLICE]
            unknown = {job.queue for job in part} - self._store.known_queues
            with self._store.file.writing(single=len(part) == 1 and not unknown) as connection:
                now = self._store.now()
                for queue in unknown:
                    connection.execute(self._store.statements.add_queue, (queue,))
                new = [(job, moments_of(job, now)) for job in part]
                results += self._insert_all(connection, new)
            self._store.known_queues.update(unknown)
            soon = {job.queue for job, at in new if at.due_at <= now + WAKE_HORIZON}
            all_ready = all(at.due_at <= now for _, at in new)
            self._store.waiters.notify(soon, WakeReason.JOBS_READY if all_ready else WakeReason.ANY)
        return results

    def enqueue_with(self, connection: object, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        """
        See `TransactionalEnqueue`. Takes connections of sqlite3, SQLAlchemy and Django to the same file, and Sessions.

        Waiters notice the caller's commit in the file's log.
        """
        checked = check_all("jobs", jobs, NewJob)
        self._store.file.check_open()
        try:
            execute = executor(connection, vendor="sqlite", driver=sqlite3.Connection, of_driver=_run_on)
            self._check_file(execute)
            if not self._store.file.is_open:  # if it is open, its schema was checked
                schema = self._store.file.schema
                if not schema.is_current(execute):
                    schema.migrate_on(execute)
            now = self._store.now()
            results = []
            for job in checked:
                moments = moments_of(job, now)
                cursor = execute(self._store.statements.insert, (*moments, *values_of(job)))
                results.append(self._result(execute, job, moments, is_stored=cursor.rowcount == 1))
            return results
        except Exception as error:
            cause = getattr(error, "orig", error)  # SQLAlchemy and Django wrap the driver's errors
            if isinstance(error.__cause__, sqlite3.Error):
                cause = error.__cause__
            if isinstance(cause, OUTSIDE_ERRORS):
                raise translated(cause, self._store.file.path) from cause_of(error)
            raise

    def _insert_all(self, connection: sqlite3.Connection, new: Sequence[tuple[NewJob, Moments]]) -> list[Enqueued]:
        insert = self._store.statements.insert
        rows = [(*at, *values_of(job)) for job, at in new]
        # A single row needs no transaction; executemany would begin one.
        cursor = connection.execute(insert, rows[0]) if len(rows) == 1 else connection.executemany(insert, rows)
        all_new = cursor.rowcount == len(rows)
        return [self._result(connection.execute, job, at, is_stored=all_new) for job, at in new]

    def _result(self, execute: Execute, job: NewJob, moments: Moments, *, is_stored: bool) -> Enqueued:
        if is_stored:
            return Enqueued(job=stored_job(job, *moments), is_new=True)
        # Text is read as bytes: it may not be UTF-8, and the text factory of a caller's connection must stay.
        rows = execute(self._store.statements.find_bytes, (job.queue, job.id)).fetchall()
        if not rows:
            raise BackendError(f"job {job.id} was neither stored nor found")
        row = JobRow._make(
            any_text(value) if is_text and value is not None else value
            for value, is_text in zip(rows[0], _IS_TEXT, strict=True)
        )
        return Enqueued(job=job_of(row, moments.created_at), is_new=is_repeat(row, job))

    def _check_file(self, execute: Execute) -> None:
        (_, _, path), *_ = execute("PRAGMA database_list", ()).fetchall() or [("", "", "")]
        ours = self._store.file.path
        if not path or not Path(path).samefile(ours):
            raise ConfigError("connection", f"belongs to {path or 'no file'}, but the jobs of this store are in {ours}")


class _Rows:
    """Result of a statement, fetched at once, while the connection returns text as str."""

    def __init__(self, cursor: sqlite3.Cursor) -> None:
        self.rowcount = cursor.rowcount
        self._rows = cursor.fetchall() if cursor.description else []

    def fetchall(self) -> Sequence[Sequence[Any]]:
        return self._rows


def _run_on(connection: sqlite3.Connection) -> Execute:
    def run(statement: str, parameters: Parameters) -> _Rows:
        # The caller may have set a row factory or a text factory. Both are restored.
        own, connection.text_factory = connection.text_factory, str
        try:
            cursor = connection.cursor()
            cursor.row_factory = None
            return _Rows(cursor.execute(statement, parameters))
        finally:
            connection.text_factory = own

    return run
