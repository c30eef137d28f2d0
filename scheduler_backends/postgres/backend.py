"""Construction of the PostgreSQL backend. Its methods are in the other modules of this package."""

from __future__ import annotations

from typing import Self

import sqlalchemy as sa

from scheduler.backend import Backend
from scheduler.clock import Clock
from scheduler.limits import check_clock
from scheduler.queues import Retention
from scheduler.urls import without_password
from scheduler_backends.postgres.admin import AdminHooks
from scheduler_backends.postgres.database import Database
from scheduler_backends.postgres.engines import listening_engine, opened
from scheduler_backends.postgres.enqueue import EnqueueHooks
from scheduler_backends.postgres.lease import LeaseHooks
from scheduler_backends.postgres.maintenance import MaintenanceHooks
from scheduler_backends.postgres.notifier import Notifier, channel_of
from scheduler_backends.postgres.options import Options
from scheduler_backends.postgres.reads import ReadHooks
from scheduler_backends.postgres.schema import PostgresSchema
from scheduler_backends.postgres.settle import SettleHooks
from scheduler_backends.postgres.statements import Statements
from scheduler_backends.postgres.store import Store
from scheduler_backends.postgres.waiter import WaiterHooks


class PostgresBackend(
    EnqueueHooks, LeaseHooks, SettleHooks, MaintenanceHooks, AdminHooks, ReadHooks, WaiterHooks, Backend
):
    """
    Backend that stores jobs in PostgreSQL 14 or newer.

    Args:
        engine_or_url: a SQLAlchemy engine on psycopg, whose pool is used as it is, or ``postgresql://…`` with the
            other arguments as options.
        retention: how long finished jobs are kept. None = the defaults of `Retention`.
        clock: the source of the current time, for tests. None = the server's clock.
        schema: the schema of the tables.
        prefix: the beginning of the table names.
        migrate: create or update the tables when they are first used. If False, a database whose tables are missing or
            old raises `SchemaMismatch`.
        timeout: seconds that a statement or a new connection may take before `BackendUnavailable` is raised. If an
            engine is given, its own settings apply instead of this argument and the next two.
        pool_size: the most connections at a time. Each waiter has one more.
        pool_timeout: seconds to wait for a free connection.
        pgbouncer: True if pgbouncer, in transaction mode, is in front of the server.
        listen_url: a URL that leads to the server directly, for LISTEN behind pgbouncer. As an option of a URL it must
            be percent-encoded.

    Raises:
        ConfigError: an argument is invalid, or differs from the same option in the URL.
    """

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
            retention=Retention() if retention is None else retention, schema=schema, prefix=prefix, migrate=migrate,
            timeout=timeout, pool_size=pool_size, pool_timeout=pool_timeout, pgbouncer=pgbouncer, listen_url=listen_url,
        )  # fmt: skip
        engine, options = opened(engine_or_url, options)
        self.retention = options.retention
        self._shown = without_password(engine.url.render_as_string(hide_password=True))
        tables = PostgresSchema(options.schema, options.prefix, may_migrate=options.migrate)
        owned = not isinstance(engine_or_url, sa.Engine)
        database = Database(engine, owned=owned, pgbouncer=options.pgbouncer, prepare=tables.prepare)
        listening = None if options.pgbouncer else database
        if options.listen_url is not None:
            direct = listening_engine(options)
            listening = Database(direct, owned=True, pgbouncer=False, prepare=lambda _: None)
        texts = Statements(tables.quoted, options.prefix)
        channel = channel_of(options.schema, options.prefix)
        self._store = Store(
            database=database,
            schema=tables,
            statements=texts,
            retention=self.retention,
            clock=check_clock(clock),
            channel=channel,
            notifier=Notifier(lambda queues: database.run(texts.enqueue.notify, {"channel": channel, "name": queues})),
            listening=listening,
        )

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Return a backend for ``postgresql://user@host:5432/name``. Options are the arguments and those of libpq."""
        return cls(url)

    @property
    def clock(self) -> Clock | None:
        """The source of the current time. None = the server's clock; tests set another one."""
        return self._store.clock

    @clock.setter
    def clock(self, clock: Clock | None) -> None:
        self._store.clock = check_clock(clock)

    def __repr__(self) -> str:
        return f"PostgresBackend({self._shown!r})"

    def close(self) -> None:
        self._store.close()
