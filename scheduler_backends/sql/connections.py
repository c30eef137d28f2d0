"""
Execution of statements on a caller's connection: of the database driver, SQLAlchemy or Django.

SQLAlchemy and Django are not imported here. A caller that passes one of their objects has already imported them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar, cast

from scheduler.errors import BackendUnavailable, ConfigError

_T = TypeVar("_T")


class Result(Protocol):
    """Result of a statement: a cursor, or a SQLAlchemy result."""

    @property
    def rowcount(self) -> int:
        """Return the number of changed rows."""
        ...

    def fetchall(self) -> Sequence[Sequence[Any]]:
        """Return all rows."""
        ...


Parameters = Sequence[object] | Mapping[str, object]
Execute = Callable[[str, Parameters], Result]


def executor(connection: object, *, vendor: str, driver: type, of_driver: Callable[[Any], Execute]) -> Execute:
    """
    Return a function that runs statements in the transaction of *connection*. It never commits or rolls back.

    The errors are raised here or by the returned function.

    Args:
        connection: a connection of the driver, SQLAlchemy or Django, or a SQLAlchemy Session.
        vendor: the name of the database in SQLAlchemy and Django.
        driver: the driver's class of connections.
        of_driver: returns the function for a connection of the driver.

    Raises:
        ConfigError: *connection* has another type, belongs to another kind of database, or cannot be used.
        BackendUnavailable: the transaction must be rolled back first, or the pool of a Session has no free connection.
        Exception: an error of the driver, not translated.
    """
    if isinstance(connection, driver):
        return of_driver(connection)
    alchemy = _sqlalchemy(connection)
    if alchemy is not None:
        _check_vendor(alchemy.dialect.name, vendor)
        if alchemy.dialect.paramstyle not in ("pyformat", "qmark"):  # those of psycopg, psycopg2 and sqlite3
            raise ConfigError("connection", f"is of the driver {alchemy.dialect.driver}; use psycopg or psycopg2")
        # Not on the driver's connection: SQLAlchemy would not notice the new transaction, and would discard it.
        return lambda statement, parameters: _in_sqlalchemy(alchemy, statement, parameters)
    if _is_django(connection):
        django = cast("Any", connection)
        _check_vendor(django.vendor, vendor)
        if vendor == "sqlite":  # Django's cursor supports only %s, not the parameters of our statements
            django.ensure_connection()
            return of_driver(django.connection)
        return lambda statement, parameters: _in_django(django, statement, parameters)
    raise ConfigError(
        "connection",
        f"must be a SQLAlchemy Connection or Session, Django's connection, or a {driver.__module__.partition('.')[0]} "
        f"connection, not {type(connection).__name__}",
    )


def _sqlalchemy(connection: object) -> Any:
    """Return the SQLAlchemy Connection for *connection*, None = it is no Connection or Session of SQLAlchemy."""
    engine, orm = sys.modules.get("sqlalchemy.engine"), sys.modules.get("sqlalchemy.orm")
    if engine is not None and isinstance(connection, engine.Connection):
        return connection
    if orm is not None and isinstance(connection, orm.Session | orm.scoped_session):
        return _alchemy(connection.connection)
    return None


def _in_sqlalchemy(alchemy: Any, statement: str, parameters: Parameters) -> Result:
    options = {"stream_results": False}  # the caller may have enabled server-side cursors
    return _alchemy(lambda: cast("Result", alchemy.exec_driver_sql(statement, parameters, execution_options=options)))


def _alchemy(work: Callable[[], _T]) -> _T:
    """Call *work*, which uses SQLAlchemy. Raise the driver's errors unwrapped, and translate those of SQLAlchemy."""
    exc = sys.modules["sqlalchemy.exc"]
    try:
        return work()
    except exc.SQLAlchemyError as error:
        failure: BaseException = error
    if isinstance(failure, exc.StatementError) and failure.orig is not None:
        failure = failure.orig  # SQLAlchemy's error shows the parameters, which contain payloads
    if isinstance(failure, exc.SQLAlchemyError):
        brief = str(failure).partition("\n")[0].partition(" (Background on")[0]
        if isinstance(failure, exc.PendingRollbackError | exc.TimeoutError):  # a new transaction may work
            failure = BackendUnavailable(f"the connection that was passed cannot be used: {brief}")
        elif isinstance(failure, exc.InvalidRequestError):  # for example, it is closed, or the Session has no engine
            failure = ConfigError("connection", f"cannot be used: {brief}")
    raise failure


def _is_django(connection: object) -> bool:
    # Not by isinstance: `django.db.connection` is a proxy.
    return "django.db" in sys.modules and hasattr(connection, "vendor") and hasattr(connection, "ensure_connection")


def _in_django(django: Any, statement: str, parameters: Parameters) -> Result:
    cursor = django.cursor()
    cursor.execute(statement, parameters)
    return cast("Result", cursor)


def _check_vendor(found: str, wanted: str) -> None:
    if found != wanted:
        raise ConfigError("connection", f"belongs to {found}, but the jobs of this store are in {wanted}")
