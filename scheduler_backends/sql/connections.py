"""
The caller's own connection, whatever library it is of, as something that runs one statement.

No library is imported here: whoever hands in its object has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

from scheduler.errors import ConfigError


class Answer(Protocol):
    """What a statement answered: a cursor, or SQLAlchemy's result."""

    @property
    def rowcount(self) -> int:
        """How many rows were changed."""
        ...

    def fetchone(self) -> Sequence[Any] | None:
        """The next row, in the order of the statement's columns."""
        ...

    def fetchall(self) -> Sequence[Sequence[Any]]:
        """The rows that are left."""
        ...


Parameters = Sequence[object] | Mapping[str, object]
Execute = Callable[[str, Parameters], Answer]


def executor(connection: object, *, vendor: str, driver: type, of_driver: Callable[[Any], Execute]) -> Execute:
    """
    Runs statements within the transaction of *connection*, and does nothing else to it.

    vendor: what SQLAlchemy and Django call the database. *driver* and *of_driver*: its driver's connection class, and
    how a statement is run on one. `ConfigError` for anything else, and for a connection to another kind of database.
    """
    if isinstance(connection, driver):
        return of_driver(connection)
    alchemy = _sqlalchemy(connection)
    if alchemy is not None:
        _check_vendor(alchemy.dialect.name, vendor)
        if alchemy.dialect.paramstyle not in ("pyformat", "qmark"):  # as psycopg, psycopg2 and sqlite3 have it
            raise ConfigError("connection", f"is of the driver {alchemy.dialect.driver}; use psycopg or psycopg2")
        # Not on its driver's connection: SQLAlchemy would not know that a transaction has begun, and drop it.
        return lambda statement, parameters: _in_sqlalchemy(alchemy, statement, parameters)
    if _is_django(connection):
        django = cast("Any", connection)
        _check_vendor(django.vendor, vendor)
        if vendor == "sqlite":  # Django's cursor takes %s alone, where SQLite's own takes what our statements hold
            django.ensure_connection()
            return of_driver(django.connection)
        return lambda statement, parameters: _in_django(django, statement, parameters)
    raise ConfigError(
        "connection",
        f"must be a SQLAlchemy Connection or Session, Django's connection, or a {driver.__module__.partition('.')[0]} "
        f"connection, not {type(connection).__name__}",
    )


def _sqlalchemy(connection: object) -> Any:
    """The SQLAlchemy Connection that *connection* is or holds, None = it is none of SQLAlchemy's."""
    engine, orm = sys.modules.get("sqlalchemy.engine"), sys.modules.get("sqlalchemy.orm")
    if engine is not None and isinstance(connection, engine.Connection):
        return connection
    if orm is not None and isinstance(connection, orm.Session | orm.scoped_session):
        return connection.connection()
    return None


def _in_sqlalchemy(alchemy: Any, statement: str, parameters: Parameters) -> Answer:
    options = {"stream_results": False}  # a cursor on the server may be what the caller wants for other statements
    try:
        return cast("Answer", alchemy.exec_driver_sql(statement, parameters, execution_options=options))
    except sys.modules["sqlalchemy.exc"].StatementError as error:
        failure = error.orig or error
    raise failure  # the driver's alone: SQLAlchemy's shows the parameters, and with them payloads


def _is_django(connection: object) -> bool:
    # Not by class: `django.db.connection` is a proxy. The class that it stands for says where it comes from.
    return "django.db" in sys.modules and hasattr(connection, "vendor") and hasattr(connection, "ensure_connection")


def _in_django(django: Any, statement: str, parameters: Parameters) -> Answer:
    cursor = django.cursor()
    cursor.execute(statement, parameters)
    return cast("Answer", cursor)


def _check_vendor(found: str, wanted: str) -> None:
    if found != wanted:
        raise ConfigError("connection", f"is one to {found}, and this store's jobs are in {wanted}")
