"""Translates the errors of the driver and the pool into those of the library."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeVar

import psycopg
import sqlalchemy.exc
from psycopg import errors

from scheduler.errors import BackendError, BackendUnavailable, SchedulerError, SchemaMismatch

T = TypeVar("T")

REPEATABLE: tuple[type[psycopg.Error], ...] = (errors.SerializationFailure, errors.DeadlockDetected)
"""The server has undone the statement, so repeating it as a whole is safe."""

HARMLESS: tuple[type[psycopg.Error], ...] = (*REPEATABLE, psycopg.IntegrityError, psycopg.DataError)
"""After these the connection is as good as before."""

COMMAND = "python -m scheduler_backends.sql migrate URL"
_NO_LOGIN = (errors.InvalidAuthorizationSpecification, errors.InvalidCatalogName)
_NO_SCHEMA = (errors.UndefinedTable, errors.UndefinedColumn, errors.InvalidSchemaName)

# The first that fits counts. What may pass is BackendUnavailable: repeat the call.
_TABLE: tuple[tuple[tuple[type[BaseException], ...], type[BackendError], str], ...] = (
    (
        _NO_SCHEMA,
        SchemaMismatch,
        "the schema is missing or of another version: run `python -m scheduler_backends.sql migrate URL`",
    ),
    ((sqlalchemy.exc.TimeoutError,), BackendUnavailable, "every connection of the pool is in use"),
    ((TimeoutError, errors.QueryCanceled), BackendUnavailable, "the server does not reply in time"),
    ((errors.ReadOnlySqlTransaction,), BackendUnavailable, "the server takes no writes, as a standby does"),
    ((errors.InsufficientPrivilege,), BackendError, "the database role lacks a privilege"),
    (_NO_LOGIN, BackendError, "the server refuses the login"),
    ((psycopg.OperationalError, psycopg.InterfaceError), BackendUnavailable, "the server is away or refuses"),
    ((psycopg.Error, sqlalchemy.exc.SQLAlchemyError), BackendError, "the server refused"),
    ((OSError, MemoryError), BackendUnavailable, "the server cannot be reached"),  # such as: no descriptor is left
)

# Errors of a login have no code in libpq, only text. In another language of the server they count as an outage.
_REFUSED: Final = re.compile(
    "authentication failed|no password supplied|no pg_hba.conf entry|certificate verify failed|SSL error"
    "|does not support SSL|server certificate|root certificate|certificate file|private key file"
    "|(role|database) .* does not exist|not permitted to log in|permission denied for database"
    "|unrecognized configuration parameter|invalid value for parameter|invalid command-line argument"
    "|requires a value|permission denied to set parameter|parameter .* cannot be (changed|set)"
    "|could not translate service|definition of service|invalid .* value|invalid connection option"
)


def translated(error: BaseException) -> BackendError:
    """
    Return the library's error for *error*, of the driver, of SQLAlchemy around it or of the system; its cause is set.

    The cause is of the driver's class and has only the first line of its text: the others, and what SQLAlchemy adds,
    may show parameters, which contain payloads. Raise it outside the `except`: else *error* itself becomes its context.
    """
    cause = driver_error(error)
    brief = _brief(cause)
    made = BackendError(f"PostgreSQL: {type(cause).__name__}: {brief}")
    for kinds, kind, meaning in _TABLE:
        if isinstance(cause, kinds):
            made = kind(f"PostgreSQL: {meaning} ({brief})")
            break
    if type(made) is BackendUnavailable and type(cause) is psycopg.OperationalError and _REFUSED.search(str(cause)):
        why = "the server refuses the login or its options, or its certificate is not trusted"
        made = BackendError(f"PostgreSQL: {why} ({brief})")
    made.__cause__ = _clean(cause, brief)
    return made


def translating(work: Callable[[], T]) -> T:
    """Do *work* and raise what it raises, translated where it is none of the library's errors."""
    try:
        return work()
    except SchedulerError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a driver or the system raises
        failure = translated(error)
    raise failure  # here, so that no other error becomes its context: that might show parameters


def driver_error(error: BaseException) -> BaseException:
    """Return the driver's error inside SQLAlchemy's or Django's, or *error* itself."""
    if isinstance(error, sqlalchemy.exc.StatementError) and error.orig is not None:
        return error.orig
    if not isinstance(error, psycopg.Error) and isinstance(error.__cause__, psycopg.Error):
        return error.__cause__
    return error


def _brief(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    if type(error) is psycopg.OperationalError:  # of connecting: it names several addresses, and no parameter
        return "; ".join(line.strip() for line in lines)
    return lines[0] if lines else type(error).__name__


def _clean(error: BaseException, brief: str) -> BaseException:
    if isinstance(error, psycopg.Error):
        return type(error)(brief).with_traceback(error.__traceback__)
    if isinstance(error, UnicodeError):  # it has the text that it is about
        return UnicodeError(brief).with_traceback(error.__traceback__)
    return error
