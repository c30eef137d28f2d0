"""The contract outside, PostgreSQL inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

import sqlalchemy as sa

from scheduler.backend import Backend
from scheduler.clock import Clock
from scheduler.errors import BackendUnavailable
from scheduler.jobs import Job, NewJob
from scheduler.leases import Completion, Enqueued, Failure, Lease, MoveAnswer, Promotion, Recovery, Renewal
from scheduler.limits import check_kind, check_queues
from scheduler.queues import Page, QueueStats, Retention
from scheduler.states import JobState
from scheduler.urls import without_password
from scheduler_backends.postgres.curating import Curating
from scheduler_backends.postgres.database import Database, Driver
from scheduler_backends.postgres.engines import listening_engine, opened
from scheduler_backends.postgres.leasing import Leasing
from scheduler_backends.postgres.listening import Listener
from scheduler_backends.postgres.migration import Schema
from scheduler_backends.postgres.notifier import Notifier, channel_of
from scheduler_backends.postgres.options import Options
from scheduler_backends.postgres.reads import Reads
from scheduler_backends.postgres.settling import Settling
from scheduler_backends.postgres.statements import statements
from scheduler_backends.postgres.store import Store
from scheduler_backends.postgres.storing import Storing
from scheduler_backends.postgres.wakeups import PostgresWaiter, Waiters, log_polling
from scheduler_backends.sql.connections import Execute
from scheduler_backends.sql.rows import to_micros


class PostgresBackend(Backend):
    """
    Jobs in a PostgreSQL database, 14 or newer.

    engine_or_url: a SQLAlchemy engine on psycopg, whose pool is then used as it is, or ``postgresql://…``, which may
    hold the other arguments as options. retention: how long finished jobs are kept. clock: for tests; None = the
    server's own time. schema, prefix: where the tables are. migrate: bring them up to date when first used; else a
    database that needs it raises `SchemaMismatch`. timeout: seconds that any statement, and connecting, may take before
    `BackendUnavailable`. pool_size: most connections at a time, one more for each waiter. pool_timeout: seconds to wait
    for a free one. pgbouncer: it stands in between, in transaction mode. listen_url: a direct way to the server for
    LISTEN then; percent-encoded where it is an option of a URL. The last five but pgbouncer and listen_url are an
    engine's own business where one is given.
    """

    clock: Clock | None

    def __init__(
        self,
        engine_or_url: sa.Engine | str,
        *,
        retention: Retention | None = None,
        clock: Clock | None = None,
        schema: str = "scheduler",
        prefix: str = "",
        migrate: bool = False,
        timeout: float = 10.0,
        pool_size: int = 10,
        pool_timeout: float = 5.0,
        pgbouncer: bool = False,
        listen_url: str | None = None,
    ) -> None:
        options = Options(
            retention=Retention() if retention is None else retention,
            schema=schema,
            prefix=prefix,
            migrate=migrate,
            timeout=timeout,
            pool_size=pool_size,
            pool_timeout=pool_timeout,
            pgbouncer=pgbouncer,
            listen_url=listen_url,
        )
        engine, options = opened(engine_or_url, options)
        self.retention = options.retention
        self.clock = None if clock is None else check_kind("clock", clock, Clock)
        self._may_migrate = options.migrate
        self._shown = without_password(engine.url.render_as_string(hide_password=True))
        self._schema = Schema(options.schema, options.prefix)
        owned = not isinstance(engine_or_url, sa.Engine)
        self._database = Database(engine, owned=owned, pgbouncer=options.pgbouncer, prepare=self._prepare)
        self._listening: Database | None = None if options.pgbouncer else self._database
        if options.listen_url is not None:
            direct = listening_engine(options)
            self._listening = Database(direct, owned=True, pgbouncer=False, prepare=lambda _: None)
        self._channel = channel_of(options.schema, options.prefix)
        self._waiters = Waiters()
        texts = statements(options.schema, options.prefix)
        self._notifier = Notifier(
            lambda queues: self._database.run(texts.storing.notify, {"channel": self._channel, "name": queues})
        )
        store = Store(
            database=self._database,
            statements=texts,
            retention=self.retention,
            now=self._now,
            notifier=self._notifier,
        )
        self._storing = Storing(store, self._channel, self._prepare_caller)
        self._leasing, self._settling = Leasing(store), Settling(store)
        self._curating, self._reads = Curating(store), Reads(store)

    @classmethod
    def from_url(cls, url: str) -> Self:
        """``postgresql://user@host:5432/name``, with the arguments of the class, and libpq's, as options."""
        return cls(url)

    def __repr__(self) -> str:
        return f"PostgresBackend({self._shown!r})"

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        return self._storing.enqueue(jobs)

    def promote_due(self, queues: Sequence[str], limit: int) -> Promotion:
        return self._leasing.promote_due(queues, limit)

    def lease(
        self, queues: Sequence[str], *, token: str, worker_id: str, duration: float, limit: int
    ) -> Sequence[Lease]:
        return self._leasing.lease(queues, token=token, worker_id=worker_id, duration=duration, limit=limit)

    def renew(self, leases: Sequence[Lease], duration: float) -> Renewal:
        return self._leasing.renew(leases, duration)

    def complete(self, completions: Sequence[Completion]) -> Sequence[Lease]:
        return self._settling.complete(completions)

    def retry(self, failures: Sequence[Failure]) -> Sequence[Lease]:
        return self._settling.retry(failures)

    def bury(self, failures: Sequence[Failure]) -> Sequence[Lease]:
        return self._settling.bury(failures)

    def release(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        return self._settling.release(leases)

    def recover_expired(self, queues: Sequence[str], limit: int) -> Recovery:
        return self._leasing.recover_expired(queues, limit)

    def cancel(self, queue: str, ids: Sequence[str]) -> Sequence[MoveAnswer]:
        return self._curating.cancel(queue, ids)

    def requeue(self, queue: str, ids: Sequence[str]) -> Sequence[MoveAnswer]:
        return self._curating.requeue(queue, ids)

    def get(self, queue: str, ids: Sequence[str]) -> Mapping[str, Job]:
        return self._reads.get(queue, ids)

    def list(self, queue: str, state: JobState, *, cursor: str | None = None, limit: int = 100) -> Page:
        return self._reads.list(queue, state, cursor=cursor, limit=limit)

    def stats(self, queues: Sequence[str] | None = None) -> Sequence[QueueStats]:
        return self._reads.stats(queues)

    def pause(self, queue: str) -> None:
        self._curating.pause(queue)

    def resume(self, queue: str) -> None:
        self._curating.resume(queue)

    def purge(self, queue: str, state: JobState, limit: int) -> int:
        return self._curating.purge(queue, state, limit)

    def trim(self, queues: Sequence[str], limit: int) -> int:
        return self._curating.trim(queues, limit)

    def ping(self) -> None:
        self._database.run("SELECT 1", {})

    def close(self) -> None:
        self._waiters.close()
        if self._listening is not None and self._listening is not self._database:
            self._listening.close()
        self._database.close()

    def waiter(self, queues: Sequence[str]) -> PostgresWaiter:
        """See `Wakeups`. Connects when first used, by a connection of its own."""
        database = self._listening
        if database is None:
            log_polling()
        listen = None if database is None else lambda: Listener(database, self._channel)
        names = check_queues(queues)
        try:
            waiter = PostgresWaiter(self._waiters, names, listen, self._notifier)
        except OSError as error:
            raise BackendUnavailable(f"no waiter can be made: {error}") from error
        self._waiters.add(waiter)
        return waiter

    def enqueue_with(self, connection: object, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        """See `TransactionalEnqueue`: psycopg, SQLAlchemy and Django connections to the same database, and Sessions."""
        return self._storing.enqueue_with(connection, jobs)

    def migrate(self) -> int:
        """Bring the tables up to date, and answer how many steps that took: 0 = they were. Harmless at any time."""
        return self._database.alone(self._schema.migrate)

    def schema_version(self) -> int:
        """The version of the schema in the database, 0 = none."""
        return self._database.alone(self._schema.version)

    def check_schema(self) -> None:
        """Raise `SchemaMismatch`, which says what to do, unless the schema is up to date. Changes nothing."""
        self._database.alone(lambda driver: self._schema.check(driver, may_migrate=False))

    def migration_sql(self, from_version: int = 0, to_version: int | None = None) -> str:
        """What `migrate` runs between two versions of the schema, for those who review it (None = the newest)."""
        return self._schema.migration_sql(from_version, to_version)

    def _prepare(self, driver: Driver) -> None:
        self._schema.check(driver, may_migrate=self._may_migrate)

    def _prepare_caller(self, execute: Execute) -> None:
        # By the caller's connection: another one of a pool that is shared may not be there to be had.
        if not self._schema.is_current(execute, may_migrate=self._may_migrate):
            self.migrate()

    def _now(self) -> int | None:
        return None if self.clock is None else to_micros(self.clock.now())
