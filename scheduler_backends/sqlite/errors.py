"""The library's errors for those of SQLite and of the system."""

from __future__ import annotations

import errno
import sqlite3
from typing import Final

from scheduler.errors import BackendError, BackendUnavailable, SchemaMismatch

_TRANSIENT: Final = {
    sqlite3.SQLITE_BUSY: "is locked",
    sqlite3.SQLITE_LOCKED: "is locked",
    sqlite3.SQLITE_FULL: "cannot grow: the disk is full",
    sqlite3.SQLITE_IOERR: "cannot be read or written",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened",
    sqlite3.SQLITE_NOMEM: "cannot be used: out of memory",
    sqlite3.SQLITE_PROTOCOL: "is locked",
    sqlite3.SQLITE_INTERRUPT: "was interrupted",
}
_PERMANENT: Final = {
    sqlite3.SQLITE_READONLY: "is read-only",
    sqlite3.SQLITE_CORRUPT: "is damaged",
    sqlite3.SQLITE_NOTADB: "is no SQLite database",
    sqlite3.SQLITE_PERM: "must not be accessed",
    sqlite3.SQLITE_AUTH: "must not be accessed",
    sqlite3.SQLITE_TOOBIG: "cannot take so much in one row",
}
# Caused by how the connection was opened: a new one may work once the cause has gone.
_OF_THE_CONNECTION: Final = frozenset(
    {
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_AUTH,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_MISUSE,
    }
)
_PERMANENT_SYSTEM_ERRORS: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP, errno.ENOTDIR})

OUTSIDE_ERRORS: Final = (sqlite3.Error, sqlite3.Warning, OSError, OverflowError, UnicodeError, MemoryError)
"""What sqlite3 and the system raise. Everything else that a call raises is a bug of this library."""
_UNDECODABLE: Final = "Could not decode to UTF-8"
"""How the driver's message begins. It goes on with the text that cannot be decoded."""


class UndecodableTextError(BackendError):
    """A text in the file is not UTF-8, and the connection does not accept that."""


def cause_of(error: Exception) -> Exception:
    """Return what the library's error for *error* shows as its cause: without stored text."""
    return sqlite3.OperationalError(_UNDECODABLE) if _is_undecodable(error) else error


def translated(error: Exception, path: str) -> BackendError:
    """Return the library's error for *error*. What may pass is `BackendUnavailable`, so that the call is repeated."""
    code = _code(error)
    if code in _TRANSIENT:
        return BackendUnavailable(f"{path} {_TRANSIENT[code]} ({error})")
    if code in _PERMANENT:
        return BackendError(f"{path} {_PERMANENT[code]} ({error})")
    if isinstance(error, MemoryError):
        return BackendUnavailable(f"{path} {_TRANSIENT[sqlite3.SQLITE_NOMEM]}")
    if isinstance(error, OSError):
        kind = BackendError if error.errno in _PERMANENT_SYSTEM_ERRORS else BackendUnavailable
        return kind(f"{path} cannot be used: {error.strerror or error}")
    return _of_other_kind(error, path)


def _of_other_kind(error: Exception, path: str) -> BackendError:
    if _is_undecodable(error):
        return UndecodableTextError(f"{path} has a text that is not UTF-8")
    if isinstance(error, sqlite3.Error) and ("no such table" in str(error) or "no such column" in str(error)):
        return SchemaMismatch(f"{path}: {error}: run `python -m scheduler_backends.sql migrate URL`")
    if isinstance(error, UnicodeError):  # its text shows what could not be encoded, perhaps a part of a job
        return BackendError(f"{path} cannot store or return a text that is not UTF-8")
    return BackendError(f"{path}: {error}")


def _is_undecodable(error: Exception) -> bool:
    return isinstance(error, sqlite3.Error) and _UNDECODABLE in str(error)


def is_of_connection(error: BaseException | None) -> bool:
    """Return whether the connection must not be used again after *error*."""
    return _code(error) in _OF_THE_CONNECTION


def _code(error: BaseException | None) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF  # the primary code
