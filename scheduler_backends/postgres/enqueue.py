"""Enqueue: a plain INSERT for one job, arrays for some, COPY for many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any, Final

import psycopg
from psycopg import errors
from psycopg.rows import tuple_row
from psycopg.types.json import set_json_dumps

from scheduler.abilities import WAKE_HORIZON
from scheduler.errors import BackendUnavailable
from scheduler.jobs import NewJob
from scheduler.leases import Enqueued
from scheduler.limits import check_all
from scheduler_backends.postgres.database import Driver, Rows
from scheduler_backends.postgres.errors import translating
from scheduler_backends.postgres.statements.enqueue import COPIED
from scheduler_backends.postgres.store import Store
from scheduler_backends.sql.columns import COLUMNS, STORED, JobRow
from scheduler_backends.sql.connections import executor
from scheduler_backends.sql.decoding import is_repeat, job_of
from scheduler_backends.sql.encoding import moments_of, stored_job, values_of
from scheduler_backends.sql.moments import later, to_micros
from scheduler_backends.sql.slices import slices
from scheduler_backends.sql.states import SCHEDULED

_COPY_FROM: Final = 500  # jobs: below this number, one INSERT with arrays is as fast
_SLICE: Final = 5_000  # jobs in one transaction
_TRIES: Final = 10
_ROUND_TRIP: Final = 0.002  # seconds: if a notification is due within this time, the INSERT includes it

# Positions in the rows of `find`. Position 0 is the moment.
_BINARY: Final = tuple(place for place, column in enumerate(COLUMNS.values(), 1) if column.type == "bytea")

Run = Callable[..., Rows]  # a statement, and its parameters by name


class EnqueueHooks:
    """Hooks of enqueue. A new job becomes scheduled, or ready if it is due."""

    _store: Store

    def _enqueue(self, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        self._store.database.check_open()
        self._enter({job.queue for job in jobs})
        if len(jobs) == 1:
            return self._enqueue_one(jobs[0])
        results: list[Enqueued] = []
        for part in slices(jobs, _SLICE):
            stored = self._copied(part) if len(part) >= _COPY_FROM else []
            stored = stored or self._inserted(self._store.run, part)
            self._store.notifier.notify(_due_soon(stored))
            results += stored
        return results

    def enqueue_with(self, connection: object, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        """
        See `TransactionalEnqueue`. Takes psycopg, SQLAlchemy and Django connections to the same database, and Sessions.

        The notification is part of the caller's transaction, so a rollback undoes it too.
        """
        checked = check_all("jobs", jobs, NewJob)
        self._store.database.check_open()
        execute = translating(
            lambda: executor(connection, vendor="postgresql", driver=psycopg.Connection, of_driver=_run_on)
        )
        statements = self._store.statements.enqueue

        def run(statement: str, **parameters: object) -> Rows:
            rows = execute(statement, {"now": self._store.now(), **parameters}).fetchall()
            binary = _BINARY if statement is statements.find else ()
            return [tuple(_plain(value, place in binary) for place, value in enumerate(row)) for row in rows]

        def store() -> list[Enqueued]:
            self._store.schema.prepare_on(execute, self._store.database)
            stored = self._inserted(run, checked)
            soon = _due_soon(stored)
            if soon:
                run(statements.notify, channel=self._store.channel, name=sorted(soon))
            return stored

        return translating(store)

    def _enter(self, queues: set[str]) -> None:
        known = self._store.known_queues
        if not queues <= known:
            self._store.run(self._store.statements.enqueue.enter_queues, name=sorted(queues - known))
            known.update(queues)

    def _enqueue_one(self, job: NewJob) -> list[Enqueued]:
        """Enqueue in one round trip, including the notification, unless the id is taken."""
        statements, passed = self._store.statements.enqueue, _passed(job)
        is_now = job.run_at is None and not job.delay
        notifies = is_now and bool(self._store.notifier.due((job.queue,), after=_ROUND_TRIP))
        if notifies:
            rows = self._store.run(statements.insert_one_and_notify, channel=self._store.channel, **passed)
        else:
            rows = self._store.run(statements.insert_one, **passed)
        if rows and rows[0][0] is not None:
            stored = [Enqueued(job=stored_job(job, *rows[0][:3]), is_new=True)]
        else:
            stored = self._inserted(self._store.run, [job])
        if not notifies:
            self._store.notifier.notify(_due_soon(stored))
        return stored

    def _inserted(self, run: Run, jobs: Sequence[NewJob]) -> list[Enqueued]:
        results: dict[int, Enqueued] = {}
        for _ in range(_TRIES):
            left = {number: job for number, job in enumerate(jobs) if number not in results}
            if not left:
                return [results[number] for number in range(len(jobs))]
            passed = [_passed(job) for job in left.values()]
            arrays = {name: [one[name] for one in passed] for name in passed[0]}
            rows = run(self._store.statements.enqueue.insert, **arrays)
            moments = {(queue, id): found for queue, id, *found in rows}
            for number, job in left.items():
                if (job.queue, job.id) in moments:  # the first of several with this id
                    stored = stored_job(job, *moments.pop((job.queue, job.id)))
                    results[number] = Enqueued(job=stored, is_new=True)
            if len(rows) < len(left):
                self._find(run, {number: job for number, job in left.items() if number not in results}, results)
            # A job whose id was taken but not found has been deleted in between. The next round stores it.
        raise BackendUnavailable("jobs with these ids are stored and deleted too fast to tell whether they exist")

    def _find(self, run: Run, jobs: dict[int, NewJob], results: dict[int, Enqueued]) -> None:
        keys = sorted({(job.queue, job.id) for job in jobs.values()})
        rows = run(self._store.statements.enqueue.find, queue=[queue for queue, _ in keys], id=[id for _, id in keys])
        found = {(row.queue, row.id): (now, row) for now, row in ((now, JobRow._make(row)) for now, *row in rows)}
        for number, job in jobs.items():
            if (job.queue, job.id) in found:
                now, row = found[job.queue, job.id]
                results[number] = Enqueued(job=job_of(row, now), is_new=is_repeat(row, job))

    def _copied(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Store all *jobs* by COPY. Return an empty list, and store none, if one of their ids is taken."""
        stored: list[Enqueued] = []
        statements = self._store.statements.enqueue

        def copy(driver: Driver) -> Rows:
            stored.clear()
            ((now,),) = self._store.database.execute(driver, statements.now, {"now": self._store.now()})
            try:
                with driver.cursor() as cursor:
                    set_json_dumps(str, cursor)  # documents are JSON text already
                    with cursor.copy(statements.copy) as target:
                        target.set_types(list(COPIED.values()))
                        for job in jobs:
                            moments = moments_of(job, now)
                            target.write_row((SCHEDULED, *moments, *values_of(job)))
                            stored.append(Enqueued(job=stored_job(job, *moments), is_new=True))
            except errors.UniqueViolation:  # COPY is one statement, so none of its rows was stored
                stored.clear()
            return []

        self._store.database.repeat(copy)
        return stored


def _passed(job: NewJob) -> dict[str, object]:
    """Return a job's parameters for a statement. run_at NULL = now plus the delay, by the server's clock."""
    passed = dict(zip(STORED, values_of(job), strict=True))
    passed["run_at"] = None if job.run_at is None else to_micros(job.run_at)
    passed["delay"] = later(0, job.delay) if job.delay else 0
    return passed


def _due_soon(stored: Iterable[Enqueued]) -> set[str]:
    """Return the queues with a new job due within `WAKE_HORIZON`, for which polling might be too late."""
    soon = timedelta(seconds=WAKE_HORIZON)
    new = (enqueued.job for enqueued in stored if enqueued.is_new)
    return {job.queue for job in new if job.due_at is None or job.due_at - job.created_at <= soon}


def _plain(value: object, is_binary: bool) -> object:  # noqa: FBT001 - for each value of each row
    """Convert a value of another driver, or of a connection with the encoding SQL_ASCII, to that of psycopg."""
    if isinstance(value, memoryview):
        value = bytes(value)
    return value.decode() if isinstance(value, bytes) and not is_binary else value


def _run_on(connection: psycopg.Connection[Any]) -> Any:
    # Not `connection.cursor()`: its class may need other parameters, or be a server-side cursor.
    return lambda statement, parameters: psycopg.Cursor(connection, row_factory=tuple_row).execute(
        statement, parameters
    )
