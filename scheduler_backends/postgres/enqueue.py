"""enqueue: one statement for one job, arrays for some, COPY for many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import errors
from psycopg.rows import tuple_row

from scheduler.arguments import check_jobs
from scheduler.errors import BackendUnavailable, SchedulerError
from scheduler.jobs import NewJob
from scheduler.leases import Enqueued
from scheduler_backends.postgres.database import Driver, Rows
from scheduler_backends.postgres.errors import translated
from scheduler_backends.postgres.statements.storing import COLUMNS, COPIED
from scheduler_backends.postgres.store import Store
from scheduler_backends.sql.arguments import slices
from scheduler_backends.sql.connections import executor
from scheduler_backends.sql.decoding import job_of
from scheduler_backends.sql.rows import WAKE_HORIZON, JobRow, document, later, stored_job, to_micros
from scheduler_backends.sql.states import SCHEDULED

_COPY_FROM: Final = 500  # jobs: below, one statement with arrays is as fast
_SLICE: Final = 5_000  # jobs in one transaction
_TRIES: Final = 10
_ROUND_TRIP: Final = 0.002  # seconds; an insert that lasts so long tells by itself of what would be told of after it

_BINARY: Final = tuple(1 + JobRow._fields.index(name) for name in ("payload", "result"))  # in the answer of `find`

Run = Callable[..., Rows]  # a statement, and its parameters by name


class EnqueueHooks:
    """→ scheduled, or ready when due."""

    _store: Store

    def _enqueue(self, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        self._store.database.check_open()
        self._know({job.queue for job in jobs})
        if len(jobs) == 1:
            return self._enqueue_one(jobs[0])
        results: list[Enqueued] = []
        for part in slices(jobs, _SLICE):
            stored = self._copied(part) if len(part) >= _COPY_FROM else None
            if stored is None:
                stored = self._inserted(self._store.run, part)
            self._store.notifier.notify(_soon(stored))
            results += stored
        return results

    def enqueue_with(self, connection: object, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        """
        See `TransactionalEnqueue`: psycopg, SQLAlchemy and Django connections to the same database, and Sessions.

        The notification is part of the caller's transaction as well: a rollback takes back both.
        """
        checked = check_jobs(jobs)
        self._store.database.check_open()
        execute = executor(connection, vendor="postgresql", driver=psycopg.Connection, of_driver=_run_on)
        statements = self._store.statements.storing

        def run(statement: str, **parameters: object) -> Rows:
            rows = execute(statement, {"now": self._store.now(), **parameters}).fetchall()
            binary = _BINARY if statement is statements.find else ()
            return [tuple(_plain(value, place in binary) for place, value in enumerate(row)) for row in rows]

        try:
            self._store.schema.prepare_on(execute, self._store.database)
            stored = self._inserted(run, checked)
            soon = _soon(stored)
            if soon:
                run(statements.notify, channel=self._store.channel, name=sorted(soon))
            return stored
        except SchedulerError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever the caller's driver raises
            failure = translated(error)
        raise failure

    def _know(self, queues: set[str]) -> None:
        known = self._store.known_queues
        if not queues <= known:
            self._store.run(self._store.statements.storing.know_queues, name=sorted(queues - known))
            known.update(queues)

    def _enqueue_one(self, job: NewJob) -> list[Enqueued]:
        """In one round trip, the notification included, unless the id is taken."""
        is_now = job.run_at is None and not job.delay
        tells = is_now and bool(self._store.notifier.due((job.queue,), after=_ROUND_TRIP))
        parameters = dict(zip(COLUMNS, _values(job), strict=True))
        if tells:
            statement = self._store.statements.storing.insert_one_and_notify
            rows = self._store.run(statement, channel=self._store.channel, **parameters)
        else:
            rows = self._store.run(self._store.statements.storing.insert_one, **parameters)
        if rows and rows[0][0] is not None:
            run_at, due_at, created_at = rows[0][:3]
            stored = [Enqueued(job=stored_job(job, run_at, due_at, created_at), is_new=True)]
        else:
            stored = self._inserted(self._store.run, [job])
        if not tells:
            self._store.notifier.notify(_soon(stored))
        return stored

    def _inserted(self, run: Run, jobs: Sequence[NewJob]) -> list[Enqueued]:
        results: dict[int, Enqueued] = {}
        left = dict(enumerate(jobs))
        for _ in range(_TRIES):
            if not left:
                return [results[number] for number in range(len(jobs))]
            rows = self._insert(run, list(left.values()))
            times = {(queue, id): moments for queue, id, *moments in rows}
            for number, job in list(left.items()):
                moments = times.pop((job.queue, job.id), None)  # the first of several with this id
                if moments is not None:
                    results[number] = Enqueued(job=stored_job(job, *moments), is_new=True)
                    del left[number]
            if left:
                kept = self._find(run, left.values())
                for number, job in list(left.items()):
                    if (job.queue, job.id) in kept:
                        now, row = kept[job.queue, job.id]
                        results[number] = Enqueued(job=job_of(row, now), is_new=row.nonce == job.nonce)
                        del left[number]
            # What was there, and then not found, has finished in between: it is stored in the next round.
        raise BackendUnavailable("jobs with these ids come and go too fast to tell whether they are stored")

    def _insert(self, run: Run, jobs: Sequence[NewJob]) -> Rows:
        columns = zip(*map(_values, jobs), strict=True)
        return run(
            self._store.statements.storing.insert,
            **{name: list(values) for name, values in zip(COLUMNS, columns, strict=True)},
        )

    def _find(self, run: Run, jobs: Iterable[NewJob]) -> dict[tuple[str, str], tuple[int, JobRow]]:
        keys = sorted({(job.queue, job.id) for job in jobs})
        rows = run(self._store.statements.storing.find, queue=[queue for queue, _ in keys], id=[id for _, id in keys])
        found = ((now, JobRow._make(row)) for now, *row in rows)
        return {(row.queue, row.id): (now, row) for now, row in found}

    def _copied(self, jobs: Sequence[NewJob]) -> list[Enqueued] | None:
        """Stores all of *jobs* by COPY; None when one of their ids is there, and so none of them was stored."""
        stored: list[Enqueued] = []
        statements = self._store.statements.storing

        def copy(driver: Driver) -> Rows:
            stored.clear()
            ((now,),) = self._store.database.execute(
                driver, self._store.statements.storing.now, {"now": self._store.now()}
            )
            try:
                with driver.cursor() as cursor, cursor.copy(statements.copy) as target:
                    target.set_types(list(COPIED.values()))
                    for job in jobs:
                        row = _copied(job, now)
                        target.write_row(row)
                        stored.append(Enqueued(job=stored_job(job, row.run_at, row.due_at, now), is_new=True))
            except errors.UniqueViolation:  # COPY is one statement: none of its rows is there
                stored.clear()
            return []

        self._store.database.repeat(copy)
        return stored or None


def _values(job: NewJob) -> tuple[object, ...]:
    return (
        job.queue,
        job.id,
        job.type,
        job.payload,
        job.priority.value,
        job.max_retries,
        job.timeout,
        None if job.run_at is None else to_micros(job.run_at),
        later(0, job.delay or 0.0),
        None if job.retry_policy is None else document(job.retry_policy.to_data()),
        job.idempotency_key,
        document(dict(job.metadata)) if job.metadata else None,
        job.nonce,
    )


class _Copied(NamedTuple):
    """The columns of `COPIED`."""

    queue: str
    id: str
    type: str
    payload: bytes
    priority: int
    state: int
    max_retries: int
    timeout: float
    run_at: int
    due_at: int
    created_at: int
    retry_policy: object
    idempotency_key: str | None
    metadata: object
    nonce: str


def _copied(job: NewJob, now: int) -> _Copied:
    run_at = later(now, job.delay or 0.0) if job.run_at is None else to_micros(job.run_at)
    return _Copied(
        job.queue,
        job.id,
        job.type,
        job.payload,
        job.priority.value,
        SCHEDULED,
        job.max_retries,
        job.timeout,
        run_at,
        max(run_at, now),
        now,
        None if job.retry_policy is None else job.retry_policy.to_data(),
        job.idempotency_key,
        dict(job.metadata) or None,
        job.nonce,
    )


def _soon(stored: Iterable[Enqueued]) -> set[str]:
    """The queues in which something new is due so soon that a fallback poll might see it too late."""
    soon = timedelta(microseconds=WAKE_HORIZON)
    new = (enqueued.job for enqueued in stored if enqueued.is_new)
    return {job.queue for job in new if job.due_at is None or job.due_at - job.created_at <= soon}


def _plain(value: object, is_binary: bool) -> object:  # noqa: FBT001 - for each value of each row
    """A value as our own connections bring it, where the caller's has another driver or the encoding SQL_ASCII."""
    if isinstance(value, memoryview):
        value = bytes(value)
    return value.decode() if isinstance(value, bytes) and not is_binary else value


def _run_on(connection: psycopg.Connection[Any]) -> Any:
    def run(statement: str, parameters: Any) -> Any:
        # Not the connection's own kind of cursor, which may want other parameters, or stay on the server.
        return psycopg.Cursor(connection, row_factory=tuple_row).execute(statement, parameters)

    return run
