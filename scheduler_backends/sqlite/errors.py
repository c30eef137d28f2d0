"""Translation of the errors of SQLite and of the system."""

from __future__ import annotations

import errno
import sqlite3
from typing import Final, NamedTuple

from scheduler.errors import BackendError, BackendUnavailable, SchemaMismatch


class _Meaning(NamedTuple):
    text: str
    transient: bool = False  # repeating the call may help
    of_connection: bool = True  # depends on how the connection was opened: a new one may work


_MEANINGS: Final = {
    sqlite3.SQLITE_BUSY: _Meaning("is locked", transient=True, of_connection=False),
    sqlite3.SQLITE_LOCKED: _Meaning("is locked", transient=True, of_connection=False),
    sqlite3.SQLITE_PROTOCOL: _Meaning("is locked", transient=True),
    sqlite3.SQLITE_FULL: _Meaning("cannot grow: the disk is full", transient=True, of_connection=False),
    sqlite3.SQLITE_IOERR: _Meaning("cannot be read or written", transient=True),
    sqlite3.SQLITE_CANTOPEN: _Meaning("cannot be opened", transient=True),
    sqlite3.SQLITE_NOMEM: _Meaning("cannot be used: out of memory", transient=True, of_connection=False),
    sqlite3.SQLITE_INTERRUPT: _Meaning("was interrupted", transient=True, of_connection=False),
    sqlite3.SQLITE_READONLY: _Meaning("is read-only"),
    sqlite3.SQLITE_CORRUPT: _Meaning("is damaged"),
    sqlite3.SQLITE_NOTADB: _Meaning("is not an SQLite database"),
    sqlite3.SQLITE_PERM: _Meaning("cannot be accessed: permission denied"),
    sqlite3.SQLITE_AUTH: _Meaning("cannot be accessed: permission denied"),
    sqlite3.SQLITE_TOOBIG: _Meaning("cannot store so much data in one row", of_connection=False),
    sqlite3.SQLITE_MISUSE: _Meaning("was used wrongly"),
}
_PERMANENT_SYSTEM_ERRORS: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP, errno.ENOTDIR})

OUTSIDE_ERRORS: Final = (sqlite3.Error, sqlite3.Warning, OSError, OverflowError, UnicodeError, MemoryError)
"""Errors that sqlite3 and the system raise. Any other exception from a call is a bug of this library."""
_UNDECODABLE: Final = "Could not decode to UTF-8"
"""The beginning of the driver's message. The rest is the text that cannot be decoded."""


class UndecodableTextError(BackendError):
    """Text in the file is not UTF-8, and the connection does not accept such text."""


def cause_of(error: Exception) -> Exception:
    """Return the cause to chain to the translation of *error*. It contains no stored text."""
    return sqlite3.OperationalError(_UNDECODABLE) if _is_undecodable(error) else error


def translated(error: Exception, path: str) -> BackendError:
    """Return the library's error for *error*: `BackendUnavailable` if repeating the call may help."""
    meaning = _meaning(error)
    if meaning is not None:
        kind = BackendUnavailable if meaning.transient else BackendError
        return kind(f"{path} {meaning.text} ({error})")
    if isinstance(error, MemoryError):
        return BackendUnavailable(f"{path} cannot be used: out of memory")
    if isinstance(error, OSError):
        kind = BackendError if error.errno in _PERMANENT_SYSTEM_ERRORS else BackendUnavailable
        return kind(f"{path} cannot be used: {error.strerror or error}")
    return _of_other_kind(error, path)


def _of_other_kind(error: Exception, path: str) -> BackendError:
    if _is_undecodable(error):
        return UndecodableTextError(f"{path} has a text that is not UTF-8")
    if isinstance(error, sqlite3.Error) and ("no such table" in str(error) or "no such column" in str(error)):
        return SchemaMismatch(f"{path}: {error}: run `python -m scheduler_backends.sql migrate URL`")
    if isinstance(error, UnicodeError):  # its message shows the text, which may be part of a job
        return BackendError(f"{path} cannot store or return a text that is not UTF-8")
    return BackendError(f"{path}: {error}")


def _is_undecodable(error: Exception) -> bool:
    return isinstance(error, sqlite3.Error) and _UNDECODABLE in str(error)


def is_of_connection(error: BaseException | None) -> bool:
    """Return whether the connection must be replaced after *error*."""
    meaning = _meaning(error)
    return meaning is not None and meaning.of_connection


def _meaning(error: BaseException | None) -> _Meaning | None:
    return _MEANINGS.get(getattr(error, "sqlite_errorcode", 0) & 0xFF)  # the primary code
