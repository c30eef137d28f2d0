"""Translation of the errors of the driver and the pool."""

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
"""Errors after which repeating the statement is safe, because the server undid it."""

HARMLESS: tuple[type[psycopg.Error], ...] = (*REPEATABLE, psycopg.IntegrityError, psycopg.DataError)
"""Errors after which the connection can be used again."""

_COMMAND: Final = "python -m scheduler_backends.sql migrate URL"
_NO_LOGIN = (errors.InvalidAuthorizationSpecification, errors.InvalidCatalogName)
_NO_SCHEMA = (errors.UndefinedTable, errors.UndefinedColumn, errors.InvalidSchemaName)

# The first match counts. BackendUnavailable means that repeating the call may help.
_TABLE: tuple[tuple[tuple[type[BaseException], ...], type[BackendError], str], ...] = (
    (_NO_SCHEMA, SchemaMismatch, f"the schema is missing or of another version: run `{_COMMAND}`"),
    ((sqlalchemy.exc.TimeoutError,), BackendUnavailable, "every connection of the pool is in use"),
    ((TimeoutError, errors.QueryCanceled), BackendUnavailable, "the server does not reply in time"),
    ((errors.ReadOnlySqlTransaction,), BackendUnavailable, "the server takes no writes, as a standby does"),
    ((errors.InsufficientPrivilege,), BackendError, "the database role lacks a privilege"),
    (_NO_LOGIN, BackendError, "the server refuses the login"),
    ((psycopg.OperationalError, psycopg.InterfaceError), BackendUnavailable, "the server is away or refuses"),
    ((psycopg.Error, sqlalchemy.exc.SQLAlchemyError), BackendError, "the server refused"),
    ((OSError, MemoryError), BackendUnavailable, "the server cannot be reached"),  # or no free descriptor
)

# libpq gives no code for login errors, only a text. If the server's language is not English, they count as an outage.
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
    Return the library's error for *error*, which the driver, SQLAlchemy or the system raised.

    Its cause has the driver's class but only the first line of the text. The other lines, and the text of SQLAlchemy,
    may show parameters, which contain payloads. Raise it outside the `except`, or *error* itself becomes its context.
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
    """Return the result of *work*. Translate each error that is not one of the library's own."""
    try:
        return work()
    except SchedulerError:
        raise
    except Exception as error:  # noqa: BLE001 - the driver or the system may raise anything
        failure = translated(error)
    raise failure  # outside the except: an error as its context might show parameters


def driver_error(error: BaseException) -> BaseException:
    """Return the driver's error inside SQLAlchemy's or Django's, or *error* itself."""
    if isinstance(error, sqlalchemy.exc.StatementError) and error.orig is not None:
        return error.orig
    if not isinstance(error, psycopg.Error) and isinstance(error.__cause__, psycopg.Error):
        return error.__cause__
    return error


def _brief(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    if type(error) is psycopg.OperationalError:  # an error of connecting has a line per address, and no parameter
        return "; ".join(line.strip() for line in lines)
    return lines[0] if lines else type(error).__name__


def _clean(error: BaseException, brief: str) -> BaseException:
    if isinstance(error, psycopg.Error):
        return type(error)(brief).with_traceback(error.__traceback__)
    if isinstance(error, UnicodeError):  # it holds the text that could not be encoded
        return UnicodeError(brief).with_traceback(error.__traceback__)
    return error
