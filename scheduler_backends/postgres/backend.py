"""How a backend on PostgreSQL is built."""

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
from scheduler_backends.postgres.migration import Schema
from scheduler_backends.postgres.notifier import Notifier, channel_of
from scheduler_backends.postgres.options import Options
from scheduler_backends.postgres.reads import ReadHooks
from scheduler_backends.postgres.settle import SettleHooks
from scheduler_backends.postgres.statements import Statements
from scheduler_backends.postgres.store import Store
from scheduler_backends.postgres.waiter import WaiterHooks


class PostgresBackend(
    EnqueueHooks, LeaseHooks, SettleHooks, MaintenanceHooks, AdminHooks, ReadHooks, WaiterHooks, Backend
):
    """
    Jobs in a PostgreSQL database, 14 or newer.

    Args:
        engine_or_url: a SQLAlchemy engine on psycopg, whose pool is used as it is, or ``postgresql://…``, which may
            have the other arguments as options.
        retention: how long finished jobs are kept.
        clock: for tests; None = the server's own time.
        schema: where the tables are.
        prefix: begins the names of the tables.
        migrate: bring the tables up to date when first used; else a database that needs it raises `SchemaMismatch`.
        timeout: seconds that any statement, and connecting, may take before `BackendUnavailable`. With an engine this
            and the next two are the engine's own.
        pool_size: most connections at a time, one more for each waiter.
        pool_timeout: seconds to wait for a free connection.
        pgbouncer: it is in front of the server, in transaction mode.
        listen_url: a direct URL of the server for LISTEN then; percent-encoded where it is an option of a URL.
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
        tables = Schema(options.schema, options.prefix, may_migrate=options.migrate)
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
        """Return a backend for ``postgresql://user@host:5432/name``, options: the arguments and libpq's."""
        return cls(url)

    @property
    def clock(self) -> Clock | None:
        """None = the server's own time; tests set one."""
        return self._store.clock

    @clock.setter
    def clock(self, clock: Clock | None) -> None:
        self._store.clock = check_clock(clock)

    def __repr__(self) -> str:
        return f"PostgresBackend({self._shown!r})"

    def close(self) -> None:
        self._store.close()
