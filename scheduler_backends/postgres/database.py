"""Statements on the pool's connections: run, repeated where that is safe, and their errors translated."""

from __future__ import annotations

import os
import random
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import psycopg
import sqlalchemy as sa
from psycopg import pq
from psycopg.rows import tuple_row
from sqlalchemy.pool import PoolProxiedConnection

from scheduler.errors import BackendClosed
from scheduler_backends.postgres.connections import BoundedConnection, is_alive
from scheduler_backends.postgres.errors import ERRORS, REPEATABLE, translated

T = TypeVar("T")
Rows = list[tuple[Any, ...]]
Driver = psycopg.Connection[Any]

_REPEATS: Final = 20
_DEAD_IN_A_ROW: Final = 100  # more idle connections than any pool holds


class Database:
    """
    One database through a SQLAlchemy engine. Safe in any thread; connects when first used, and anew after a fork.

    Each statement is a transaction of its own on the driver's connection: no session is ever idle in a transaction.
    """

    def __init__(self, engine: sa.Engine, *, owned: bool, pgbouncer: bool, prepare: Callable[[Driver], None]) -> None:
        self.engine = engine
        self._owned = owned
        # Named prepared statements live in a server session, and behind pgbouncer the next statement may be in another.
        self._prepared = False if pgbouncer else None
        self._prepare: Callable[[Driver], None] | None = prepare  # once a process, before its first statement
        self._closed = False
        _databases.add(self)

    def run(self, statement: str, parameters: Mapping[str, object]) -> Rows:
        """Run one statement that is safe to repeat when the server has undone it, and answer its rows."""
        return self.repeat(lambda driver: self.execute(driver, statement, parameters))

    def repeat(self, work: Callable[[Driver], Rows]) -> Rows:
        """Do *work* on a connection in autocommit mode, again if the server undid it for the sake of another."""
        repeats = 0
        while True:
            try:
                with self.connection() as driver:
                    return work(driver)
            except REPEATABLE as error:
                repeats += 1
                if repeats > _REPEATS:
                    raise translated(error) from error
                time.sleep(random.uniform(0.0, 0.002 * repeats))
            except ERRORS as error:
                raise translated(error) from error

    def alone(self, work: Callable[[Driver], T]) -> T:
        """Do *work* on a connection in autocommit mode, before or instead of what every process does first."""
        try:
            with self.connection(prepared=False) as driver:
                return work(driver)
        except ERRORS as error:
            raise translated(error) from error

    def execute(self, driver: Driver, statement: str, parameters: Mapping[str, object]) -> Rows:
        """Run one statement on a connection that is checked out."""
        with driver.cursor(binary=True, row_factory=tuple_row) as cursor:
            cursor.execute(statement, parameters, prepare=self._prepared)
            # Not cursor.description, which makes an object for each column.
            return cursor.fetchall() if cursor.pgresult is not None and cursor.pgresult.nfields else []

    @contextmanager
    def connection(self, *, prepared: bool = True) -> Iterator[Driver]:
        """A connection in autocommit mode. Waits for one as long as the pool says; errors come untranslated."""
        pooled, driver = self._check_out()
        autocommit = driver.autocommit
        try:
            if not autocommit:
                driver.autocommit = True  # a flag of the driver: costs no round trip
            prepare = self._prepare  # threads that come at once all do it, and another may be done meanwhile
            if prepared and prepare is not None:
                prepare(driver)
                self._prepare = None
            yield driver
        except BaseException as error:
            if isinstance(error, TimeoutError) or driver.pgconn.transaction_status != pq.TransactionStatus.IDLE:
                pooled.invalidate()
            raise
        finally:
            if self._closed:  # nobody would ever close it in a pool that was disposed of
                pooled.invalidate()
            elif not autocommit and not driver.closed:
                driver.autocommit = False
            pooled.close()

    def detached(self) -> Driver:
        """A connection that the pool forgets, in autocommit mode, for whoever closes it."""
        try:
            pooled, driver = self._check_out()
        except ERRORS as error:
            raise translated(error) from error
        pooled.detach()
        driver.autocommit = True
        return driver

    def close(self) -> None:
        """Let go of the pool, if it is ours. Calls under way end by themselves; later ones raise `BackendClosed`."""
        self._closed = True
        if self._owned:
            self.engine.dispose()

    def begin_anew_in_child(self) -> None:
        """Leave the parent's connections to the parent."""
        self.engine.dispose(close=False)

    def _check_out(self) -> tuple[PoolProxiedConnection, Driver]:
        for _ in range(_DEAD_IN_A_ROW):
            if self._closed:
                raise BackendClosed("the backend was closed")
            pooled = self.engine.raw_connection()
            driver: Any = pooled.driver_connection
            if is_alive(driver):
                break
            pooled.invalidate()
        return pooled, driver


_databases: weakref.WeakSet[Database] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for database in list(_databases):
        database.begin_anew_in_child()


os.register_at_fork(after_in_child=_after_fork_in_child)


def engine_for(url: sa.URL, *, pool_size: int, pool_timeout: float, timeout: float, pgbouncer: bool) -> sa.Engine:
    """An engine of our own: autocommit, and no wait on the network without a bound."""
    arguments: dict[str, Any] = {
        "connect_timeout": max(2, round(min(timeout, 10.0))),  # libpq: whole seconds, and 1 means 2
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "application_name": "scheduler",
    }
    if not pgbouncer:  # it knows no start-up options
        # Whatever the server's default: under the others, statements that meet are undone and repeated.
        arguments["options"] = "-c default_transaction_isolation=read\\ committed"
    for name in url.query:
        arguments.pop(name, None)
    engine = sa.create_engine(
        url,
        connect_args=arguments,
        isolation_level="AUTOCOMMIT",
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=pool_timeout,
        pool_use_lifo=True,  # a few warm connections rather than many cold ones
        pool_reset_on_return=None,
    )

    @sa.event.listens_for(engine, "do_connect")
    def connect(_dialect: object, _record: object, arguments: list[Any], options: dict[str, Any]) -> Driver:
        connection = BoundedConnection.connect(*arguments, **options)
        connection.limit = timeout
        return connection

    return engine
