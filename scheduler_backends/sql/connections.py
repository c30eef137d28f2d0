"""
Runs statements on the caller's own connection, whatever library it is from.

No library is imported here: a caller that passes its object has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar, cast

from scheduler.errors import BackendUnavailable, ConfigError

_T = TypeVar("_T")


class Result(Protocol):
    """The result of a statement: a cursor, or SQLAlchemy's result."""

    @property
    def rowcount(self) -> int:
        """Return how many rows were changed."""
        ...

    def fetchone(self) -> Sequence[Any] | None:
        """Return the next row."""
        ...

    def fetchall(self) -> Sequence[Sequence[Any]]:
        """Return the rows that are left."""
        ...


Parameters = Sequence[object] | Mapping[str, object]
Execute = Callable[[str, Parameters], Result]


def executor(connection: object, *, vendor: str, driver: type, of_driver: Callable[[Any], Execute]) -> Execute:
    """
    Return a function that runs statements in the transaction of *connection*, and does nothing else to it.

    Args:
        connection: of the driver, SQLAlchemy or Django, or a Session.
        vendor: the name of the database in SQLAlchemy and Django.
        driver: the connection class of its driver.
        of_driver: returns the function for a connection of the driver.

    Raises:
        ConfigError: it is anything else, or a connection to another kind of database, or cannot be used.
        BackendUnavailable: its transaction must be rolled back first.
        Exception: what the driver raises.
    """
    if isinstance(connection, driver):
        return of_driver(connection)
    alchemy = _sqlalchemy(connection)
    if alchemy is not None:
        _check_vendor(alchemy.dialect.name, vendor)
        if alchemy.dialect.paramstyle not in ("pyformat", "qmark"):  # as psycopg, psycopg2 and sqlite3 have it
            raise ConfigError("connection", f"is of the driver {alchemy.dialect.driver}; use psycopg or psycopg2")
        # Not on its driver's connection: SQLAlchemy would not notice that a transaction has begun, and drop it.
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
    """Return the SQLAlchemy Connection that *connection* is or has, None = it is not of SQLAlchemy."""
    engine, orm = sys.modules.get("sqlalchemy.engine"), sys.modules.get("sqlalchemy.orm")
    if engine is not None and isinstance(connection, engine.Connection):
        return connection
    if orm is not None and isinstance(connection, orm.Session | orm.scoped_session):
        return _alchemy(connection.connection)
    return None


def _in_sqlalchemy(alchemy: Any, statement: str, parameters: Parameters) -> Result:
    options = {"stream_results": False}  # the caller may have asked for cursors on the server
    return _alchemy(lambda: cast("Result", alchemy.exec_driver_sql(statement, parameters, execution_options=options)))


def _alchemy(work: Callable[[], _T]) -> _T:
    """Do *work* with SQLAlchemy. Raise what the driver raises; where SQLAlchemy itself refuses, the library's error."""
    exc = sys.modules["sqlalchemy.exc"]
    try:
        return work()
    except exc.SQLAlchemyError as error:
        failure: BaseException = error
    if isinstance(failure, exc.StatementError) and failure.orig is not None:
        failure = failure.orig  # SQLAlchemy's shows the parameters, and with them payloads
    if isinstance(failure, exc.SQLAlchemyError):
        brief = str(failure).partition("\n")[0].partition(" (Background on")[0]
        if isinstance(failure, exc.PendingRollbackError | exc.TimeoutError):  # a new transaction may work
            failure = BackendUnavailable(f"the connection that was passed cannot be used: {brief}")
        elif isinstance(failure, exc.InvalidRequestError):  # such as closed, or a Session without an engine
            failure = ConfigError("connection", f"cannot be used: {brief}")
    raise failure


def _is_django(connection: object) -> bool:
    # Not by class: `django.db.connection` is a proxy.
    return "django.db" in sys.modules and hasattr(connection, "vendor") and hasattr(connection, "ensure_connection")


def _in_django(django: Any, statement: str, parameters: Parameters) -> Result:
    cursor = django.cursor()
    cursor.execute(statement, parameters)
    return cast("Result", cursor)


def _check_vendor(found: str, wanted: str) -> None:
    if found != wanted:
        raise ConfigError("connection", f"is one to {found}, and this store's jobs are in {wanted}")
