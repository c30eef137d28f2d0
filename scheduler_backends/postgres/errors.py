"""The driver's and the pool's errors in the library's words."""

from __future__ import annotations

import psycopg
import sqlalchemy.exc
from psycopg import errors

from scheduler.errors import BackendError, BackendUnavailable, SchemaMismatch

REPEATABLE: tuple[type[psycopg.Error], ...] = (errors.SerializationFailure, errors.DeadlockDetected)
"""The server has undone the statement, so repeating it as a whole is safe."""

_NO_SCHEMA = (errors.UndefinedTable, errors.UndefinedColumn, errors.InvalidSchemaName)

# In this order, the first that fits. Whatever may pass is BackendUnavailable: repeat the call.
_TABLE: tuple[tuple[tuple[type[Exception], ...], type[BackendError], str], ...] = (
    (_NO_SCHEMA, SchemaMismatch, "the schema is missing or of another version: run `{command}`"),
    ((sqlalchemy.exc.TimeoutError,), BackendUnavailable, "every connection of the pool is in use"),
    ((TimeoutError,), BackendUnavailable, "the server does not answer"),
    (
        (errors.ReadOnlySqlTransaction,),
        BackendUnavailable,
        "the server takes no writes, as a standby does",
    ),
    ((errors.InsufficientPrivilege,), BackendError, "the database role lacks a privilege"),
    ((psycopg.OperationalError, psycopg.InterfaceError), BackendUnavailable, "the server is away or refuses"),
    ((psycopg.Error, sqlalchemy.exc.SQLAlchemyError), BackendError, "the server refused"),
)
ERRORS = (psycopg.Error, sqlalchemy.exc.SQLAlchemyError, TimeoutError)
"""What `translated` knows."""

COMMAND = "python -m scheduler_backends.sql migrate URL"


def translated(error: Exception) -> BackendError:
    """What *error*, of the driver or of SQLAlchemy around it, means to a caller."""
    cause = driver_error(error)
    for kinds, kind, meaning in _TABLE:
        if isinstance(cause, kinds):
            return kind(f"PostgreSQL: {meaning.format(command=COMMAND)} ({_brief(cause)})")
    return BackendError(f"PostgreSQL: {_brief(cause)}")


def driver_error(error: BaseException) -> BaseException:
    """The driver's error inside SQLAlchemy's or Django's, or *error* itself."""
    if isinstance(error, sqlalchemy.exc.DBAPIError) and error.orig is not None:
        return error.orig
    if not isinstance(error, psycopg.Error) and isinstance(error.__cause__, psycopg.Error):
        return error.__cause__
    return error


def _brief(error: BaseException) -> str:
    # The first line alone: the others may show the statement's parameters.
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
