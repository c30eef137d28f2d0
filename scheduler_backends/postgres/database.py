"""Runs statements on the pool's connections, repeats them where that is safe, and translates errors."""

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
_DEAD_IN_A_ROW: Final = 100  # more idle connections than any pool holds
_SEEN: Final = "scheduler seen at"  # in the pool's notes about a connection: when it was first used here

# Whether a process has its own pool of an engine, which several backends may use.
_pools: weakref.WeakKeyDictionary[sa.Engine, PerProcess[bool]] = weakref.WeakKeyDictionary()


class Database:
    """
    One database through a SQLAlchemy engine. Safe in any thread; connects when first used, and anew after a fork.

    Each statement is a transaction of its own on the driver's connection: no session is ever idle in a transaction.
    """

    def __init__(self, engine: sa.Engine, *, owned: bool, pgbouncer: bool, prepare: Callable[[Driver], None]) -> None:
        self.engine = engine
        self._owned = owned
        self._pgbouncer = pgbouncer
        # Named prepared statements live in a server session, and behind pgbouncer the next statement may be in another.
        self._prepared = False if pgbouncer else None
        self._prepare: Callable[[Driver], None] | None = prepare  # once a process, before its first statement
        self._closed = False
        self._distrusted_at = 0.0  # connections first used before this moment are not used again
        self._pool_of = _pools.setdefault(engine, PerProcess())
        self._pool_of.get(lambda: True)

    def run(self, statement: str, parameters: Mapping[str, object]) -> Rows:
        """Run one statement that is safe to repeat when the server has undone it, and return its rows."""
        return self.repeat(lambda driver: self.execute(driver, statement, parameters))

    def repeat(self, work: Callable[[Driver], Rows]) -> Rows:
        """Do *work* on a connection in autocommit mode, again if the server undid it in favour of another."""
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
            except Exception as error:  # noqa: BLE001 - whatever a driver or the system raises
                repeats = _REPEATS + 1
                failure = translated(error)
            if repeats > _REPEATS:
                raise failure  # here, so that no other error becomes its context: that might show parameters
            time.sleep(random.uniform(0.0, 0.002 * repeats))

    def unchecked(self, work: Callable[[Driver], T]) -> T:
        """Do *work* on a connection in autocommit mode, without the check of the schema before."""

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
        """Give a connection in autocommit mode. Waits for one up to the pool's time-out; errors are not translated."""
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
        except HARMLESS:
            raise
        except BaseException as error:
            self._distrust(pooled, driver, error)
            raise
        finally:
            if self._closed:  # in a pool that was disposed of, nothing would ever close it
                pooled.invalidate()
            elif not autocommit and not driver.closed:
                driver.autocommit = False
            pooled.close()

    def detached(self) -> Driver:
        """Return a connection that the pool forgets, in autocommit mode. The caller closes it."""

        def take() -> Driver:
            pooled, driver = self._check_out()
            pooled.detach()
            driver.autocommit = True
            return driver

        return translating(take)

    def check_open(self) -> None:
        """Raise `BackendClosed` after `close()`: for calls that have nothing to run."""
        if self._closed:
            raise BackendClosed("the backend was closed")

    def close(self) -> None:
        """Close the pool, if it is ours. Calls under way end by themselves; later ones raise `BackendClosed`."""
        self._closed = True
        if self._owned:
            self._own_pool()
            self.engine.dispose()

    def _own_pool(self) -> None:
        """Leave a parent's connections to the parent, whether the fork ran Python's hooks or not."""
        self._pool_of.get(self._begin_anew)

    def _begin_anew(self) -> bool:
        self.engine.dispose(close=False)
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
        first_use: float | None = pooled.info.get(_SEEN)
        if first_use is not None:
            return first_use > self._distrusted_at
        if not is_utf8(driver):
            pooled.close()
            raise BackendError("PostgreSQL: the engine's connections must have the client_encoding UTF8")
        pooled.info[_SEEN] = time.monotonic()
        return True

    def _distrust(self, pooled: PoolProxiedConnection, driver: Driver, error: BaseException) -> None:
        """
        Do not use the connection again on which *error* came.

        It may have been opened with settings that were changed since, such as a role: a session keeps them. Many
        failures say nothing about it, but they are rare, and a new connection costs little. Where the database took no
        writes, all that were opened until now are replaced.
        """
        if isinstance(error, TimeoutError) and self._pgbouncer:
            cancel(driver)  # else it would run on: there is no time-out of the server's
        if isinstance(error, errors.ReadOnlySqlTransaction):
            self._distrusted_at = time.monotonic()
        pooled.invalidate()
