"""Execution of statements on pooled connections, with safe repeats and translated errors."""

from __future__ import annotations

import random
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import psycopg
import sqlalchemy as sa
from psycopg import errors
from psycopg.rows import tuple_row
from sqlalchemy.pool import PoolProxiedConnection

from scheduler.errors import BackendClosed, BackendError, SchedulerError
from scheduler.processes import PerProcess
from scheduler_backends.postgres.connections import cancel, is_alive, is_utf8
from scheduler_backends.postgres.errors import HARMLESS, REPEATABLE, translated, translating

T = TypeVar("T")
Rows = list[tuple[Any, ...]]
Driver = psycopg.Connection[Any]

_REPEATS: Final = 20
_DEAD_IN_A_ROW: Final = 100  # more idle connections than a pool can have
_FIRST_USE: Final = "scheduler first use"  # key in the info of a pooled connection: when it was first used here

# For each engine, which several backends may share: whether this process has a pool of its own.
_pools: weakref.WeakKeyDictionary[sa.Engine, PerProcess[bool]] = weakref.WeakKeyDictionary()


class Database:
    """
    Database behind a SQLAlchemy engine. Thread-safe. Connects when first used, and again after a fork.

    Each statement is a transaction by itself on the driver's connection, so no session is ever idle in a transaction.

    Args:
        engine: gives the connections.
        owned: close the engine's pool with the database.
        pgbouncer: pgbouncer is in front of the server, so statements are not prepared.
        prepare: called with a connection before the first statement of the process.
    """

    def __init__(self, engine: sa.Engine, *, owned: bool, pgbouncer: bool, prepare: Callable[[Driver], None]) -> None:
        self.engine = engine
        self._owned = owned
        self._pgbouncer = pgbouncer
        # Prepared statements belong to a session. Behind pgbouncer, the next statement may run in another session.
        self._prepared = False if pgbouncer else None
        self._prepare: Callable[[Driver], None] | None = prepare  # None = done
        self._closed = False
        self._distrusted_at = 0.0  # connections first used before this time are not used again
        self._pool_of = _pools.setdefault(engine, PerProcess())
        self._pool_of.get(lambda: True)

    def run(self, statement: str, parameters: Mapping[str, object]) -> Rows:
        """Run one statement and return its rows. It is repeated if the server undid it."""
        return self.repeat(lambda driver: self.execute(driver, statement, parameters))

    def repeat(self, work: Callable[[Driver], Rows]) -> Rows:
        """Do *work* on a connection in autocommit mode, and repeat it if the server undid it after a conflict."""
        repeats = 0
        while True:
            try:
                with self.connection() as driver:
                    return work(driver)
            except REPEATABLE as error:
                repeats += 1
                failure = translated(error)
            except SchedulerError:
                raise
            except Exception as error:  # noqa: BLE001 - the driver or the system may raise anything
                repeats = _REPEATS + 1
                failure = translated(error)
            if repeats > _REPEATS:
                raise failure  # outside the except: an error as its context might show parameters
            time.sleep(random.uniform(0.0, 0.002 * repeats))

    def unchecked(self, work: Callable[[Driver], T]) -> T:
        """Do *work* on a connection in autocommit mode, without checking the schema first."""

        def on_connection() -> T:
            with self.connection(prepared=False) as driver:
                return work(driver)

        return translating(on_connection)

    def execute(self, driver: Driver, statement: str, parameters: Mapping[str, object]) -> Rows:
        """Run one statement on a connection that is checked out."""
        with driver.cursor(binary=True, row_factory=tuple_row) as cursor:
            cursor.execute(statement, parameters, prepare=self._prepared)
            # Not cursor.description, which makes an object for each column.
            return cursor.fetchall() if cursor.pgresult is not None and cursor.pgresult.nfields else []

    @contextmanager
    def connection(self, *, prepared: bool = True) -> Iterator[Driver]:
        """Lend a connection in autocommit mode. Waits for it up to the pool's time-out. Errors are not translated."""
        pooled, driver = self._check_out()
        autocommit = driver.autocommit
        try:
            if not autocommit:
                driver.autocommit = True  # a flag of the driver: costs no round trip
            prepare = self._prepare  # several threads may do it at once; another may finish meanwhile
            if prepared and prepare is not None:
                prepare(driver)
                self._prepare = None
            yield driver
        except HARMLESS:
            raise
        except BaseException as error:
            self._distrust(pooled, driver, error)
            raise
        finally:
            if self._closed:  # the pool was disposed of, and would never close it
                pooled.invalidate()
            elif not autocommit and not driver.closed:
                driver.autocommit = False
            pooled.close()

    def detached(self) -> Driver:
        """Return a connection in autocommit mode that no longer belongs to the pool. The caller closes it."""

        def take() -> Driver:
            pooled, driver = self._check_out()
            pooled.detach()
            driver.autocommit = True
            return driver

        return translating(take)

    def check_open(self) -> None:
        """Raise `BackendClosed` after `close`. For calls with nothing to do, which use no connection."""
        if self._closed:
            raise BackendClosed("the backend was closed")

    def close(self) -> None:
        """Close the pool if it is owned. Running calls end normally; later calls raise `BackendClosed`."""
        self._closed = True
        if self._owned:
            self._own_pool()
            self.engine.dispose()

    def _own_pool(self) -> None:
        """Replace the pool in a forked child, even if the fork ran no Python hooks."""
        self._pool_of.get(self._new_pool)

    def _new_pool(self) -> bool:
        self.engine.dispose(close=False)  # the connections belong to the parent process
        return True

    def _check_out(self) -> tuple[PoolProxiedConnection, Driver]:
        self._own_pool()
        for _ in range(_DEAD_IN_A_ROW):
            self.check_open()
            pooled = self.engine.raw_connection()
            driver: Any = pooled.driver_connection
            if is_alive(driver) and self._is_trusted(pooled, driver):
                break
            pooled.invalidate()
        return pooled, driver

    def _is_trusted(self, pooled: PoolProxiedConnection, driver: Driver) -> bool:
        first_use: float | None = pooled.info.get(_FIRST_USE)
        if first_use is not None:
            return first_use > self._distrusted_at
        if not is_utf8(driver):
            pooled.close()
            raise BackendError("PostgreSQL: the engine's connections must have the client_encoding UTF8")
        pooled.info[_FIRST_USE] = time.monotonic()
        return True

    def _distrust(self, pooled: PoolProxiedConnection, driver: Driver, error: BaseException) -> None:
        """
        Do not use a connection again after *error*.

        A session keeps the settings with which it was opened, such as those of its role, and they may have changed
        since. Many errors have another cause, but they are rare, and a new connection costs little. If the database was
        read-only, all connections opened until now are replaced.
        """
        if isinstance(error, TimeoutError) and self._pgbouncer:
            cancel(driver)  # otherwise it would continue: the server has no time-out here
        if isinstance(error, errors.ReadOnlySqlTransaction):
            self._distrusted_at = time.monotonic()
        pooled.invalidate()
