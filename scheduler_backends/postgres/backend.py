"""The contract outside, PostgreSQL inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

import sqlalchemy as sa

from scheduler.backend import Backend
from scheduler.clock import Clock
from scheduler.errors import ConfigError
from scheduler.jobs import Job, NewJob
from scheduler.leases import Completion, Enqueued, Failure, Lease, MoveAnswer, Promotion, Recovery, Renewal
from scheduler.limits import check_count, check_number, check_queues
from scheduler.queues import Page, QueueStats, Retention
from scheduler.states import JobState
from scheduler.urls import without_password
from scheduler_backends.postgres.curating import Curating
from scheduler_backends.postgres.database import Database, Driver, engine_for
from scheduler_backends.postgres.leasing import Leasing
from scheduler_backends.postgres.listening import Listener
from scheduler_backends.postgres.migration import Schema
from scheduler_backends.postgres.notifier import Notifier, channel_of
from scheduler_backends.postgres.reads import Reads
from scheduler_backends.postgres.settling import Settling
from scheduler_backends.postgres.statements import statements
from scheduler_backends.postgres.store import Store
from scheduler_backends.postgres.storing import Storing
from scheduler_backends.postgres.urls import database_url, parsed
from scheduler_backends.postgres.wakeups import PostgresWaiter, Waiters
from scheduler_backends.sql.connections import Execute
from scheduler_backends.sql.rows import to_micros
from scheduler_backends.sql.versions import check_identifier


class PostgresBackend(Backend):
    """
    Jobs in a PostgreSQL database, 14 or newer.

    engine_or_url: a SQLAlchemy engine on psycopg, whose pool is then used as it is, or ``postgresql://…``. retention:
    how long finished jobs are kept. clock: for tests; None = the server's own time. schema, prefix: where the tables
    are. migrate: bring them up to date when first used; else a database that needs it raises `SchemaMismatch`. timeout:
    seconds that any statement, and connecting, may take before `BackendUnavailable`. pool_size: most connections at a
    time, one more for each waiter. pool_timeout: seconds to wait for a free one. pgbouncer: it stands in between, in
    transaction mode. listen_url: a direct way to the server for LISTEN then. The last five but pgbouncer and listen_url
    are an engine's own business where one is given.
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
        self.retention = retention or Retention()
        self.clock = clock
        check_identifier("schema", schema)
        if prefix:
            check_identifier("prefix", prefix)
        self._may_migrate = migrate
        options = {
            "timeout": check_number("timeout", timeout, at_least=0.01, at_most=3_600.0),
            "pool_timeout": check_number("pool_timeout", pool_timeout, at_most=3_600.0),
        }
        size = check_count("pool_size", pool_size, at_least=1, at_most=1_000)
        engine = engine_or_url
        if not isinstance(engine, sa.Engine):
            engine = engine_for(database_url("url", engine), pool_size=size, pgbouncer=pgbouncer, **options)
        elif engine.dialect.name != "postgresql" or engine.dialect.driver != "psycopg":
            raise ConfigError("engine", "must be one of postgresql+psycopg")
        self._shown = without_password(engine.url.render_as_string(hide_password=True))
        self._schema = Schema(schema, prefix)
        owned = not isinstance(engine_or_url, sa.Engine)
        self._database = Database(engine, owned=owned, pgbouncer=pgbouncer, prepare=self._prepare)
        self._listening: Database | None = None if pgbouncer else self._database
        if listen_url is not None:
            direct = engine_for(database_url("listen_url", listen_url), pool_size=1, pgbouncer=False, **options)
            self._listening = Database(direct, owned=True, pgbouncer=False, prepare=lambda _: None)
        self._channel = channel_of(schema, prefix)
        self._waiters = Waiters()
        texts = statements(schema, prefix)
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
        place, retention, options = parsed(url)
        return cls(place, retention=retention, **options)  # type: ignore[arg-type]  # checked by __init__

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
        listen = None if database is None else lambda: Listener(database, self._channel)
        waiter = PostgresWaiter(self._waiters, check_queues(queues), listen, self._notifier)
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
