"""SQLite's errors, and the system's, in the library's words."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from scheduler.errors import BackendError, BackendUnavailable, SchemaMismatch

_MAY_PASS: Final = {
    sqlite3.SQLITE_BUSY: "is locked",
    sqlite3.SQLITE_LOCKED: "is locked",
    sqlite3.SQLITE_FULL: "cannot grow: the disk is full",
    sqlite3.SQLITE_IOERR: "cannot be read or written",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened",
    sqlite3.SQLITE_NOMEM: "cannot be used: out of memory",
    sqlite3.SQLITE_PROTOCOL: "is locked",
    sqlite3.SQLITE_INTERRUPT: "was interrupted",
}
_STAYS: Final = {
    sqlite3.SQLITE_READONLY: "is read-only",
    sqlite3.SQLITE_CORRUPT: "is damaged",
    sqlite3.SQLITE_NOTADB: "is no SQLite database",
    sqlite3.SQLITE_PERM: "must not be accessed",
    sqlite3.SQLITE_AUTH: "must not be accessed",
    sqlite3.SQLITE_TOOBIG: "cannot take so much in one row",
}
# These say something about the connection as it was opened: a new one may do better once the cause has gone.
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
_SYSTEM_ERRORS_THAT_STAY: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP, errno.ENOTDIR})

OUTSIDE_ERRORS: Final = (sqlite3.Error, sqlite3.Warning, OSError, OverflowError, UnicodeError, MemoryError)
"""What sqlite3 and the system raise. Everything else that a call raises is a bug of ours."""


class UndecodableTextError(BackendError):
    """A text in the file is no UTF-8, and the connection was not told to take it anyway."""


@contextmanager
def translating(path: str) -> Iterator[None]:
    """Raise what the driver or the system raises within as errors of the library."""
    try:
        yield
    except OUTSIDE_ERRORS as error:
        raise translated(error, path) from error


def translated(error: Exception, path: str) -> BackendError:
    """What *error* means to a caller. Everything that may pass is `BackendUnavailable`: repeat the call."""
    code = _code(error)
    if code in _MAY_PASS:
        return BackendUnavailable(f"{path} {_MAY_PASS[code]} ({error})")
    if code in _STAYS:
        return BackendError(f"{path} {_STAYS[code]} ({error})")
    if isinstance(error, MemoryError):
        return BackendUnavailable(f"{path} {_MAY_PASS[sqlite3.SQLITE_NOMEM]}")
    if isinstance(error, OSError):
        kind = BackendError if error.errno in _SYSTEM_ERRORS_THAT_STAY else BackendUnavailable
        return kind(f"{path} cannot be used: {error.strerror or error}")
    return _of_other_kind(error, path)


def _of_other_kind(error: Exception, path: str) -> BackendError:
    if isinstance(error, sqlite3.Error) and "Could not decode to UTF-8" in str(error):
        return UndecodableTextError(f"{path}: {error}")
    if isinstance(error, sqlite3.Error) and ("no such table" in str(error) or "no such column" in str(error)):
        return SchemaMismatch(f"{path}: {error}: run `python -m scheduler_backends.sql migrate URL`")
    if isinstance(error, UnicodeError):  # its text shows what could not be encoded, which may be a job's
        return BackendError(f"{path} cannot take or return a text that is no UTF-8")
    return BackendError(f"{path}: {error}")


def is_of_connection(error: BaseException | None) -> bool:
    """Whether *error* says that the connection must not be used again."""
    return _code(error) in _OF_THE_CONNECTION


def _code(error: BaseException | None) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF  # the primary code
