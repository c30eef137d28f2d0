"""SQLite's errors in the library's words."""

from __future__ import annotations

import sqlite3

from scheduler.errors import BackendError, BackendUnavailable, SchemaMismatch

_MAY_PASS = {
    sqlite3.SQLITE_BUSY: "is locked",
    sqlite3.SQLITE_LOCKED: "is locked",
    sqlite3.SQLITE_FULL: "cannot grow: the disk is full",
    sqlite3.SQLITE_IOERR: "cannot be read or written",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened",
    sqlite3.SQLITE_NOMEM: "cannot be used: out of memory",
    sqlite3.SQLITE_PROTOCOL: "is locked",
    sqlite3.SQLITE_INTERRUPT: "was interrupted",
}
_STAYS = {
    sqlite3.SQLITE_READONLY: "is read-only",
    sqlite3.SQLITE_CORRUPT: "is damaged",
    sqlite3.SQLITE_NOTADB: "is no SQLite database",
    sqlite3.SQLITE_PERM: "must not be accessed",
    sqlite3.SQLITE_AUTH: "must not be accessed",
    sqlite3.SQLITE_TOOBIG: "cannot take so much in one row",
}


class UndecodableTextError(BackendError):
    """A text in the file is no UTF-8, and the connection was not told to take it anyway."""


def translated(error: sqlite3.Error, path: str) -> BackendError:
    """What *error* means to a caller. Everything that may pass is `BackendUnavailable`: repeat the call."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the primary code
    if code in _MAY_PASS:
        return BackendUnavailable(f"{path} {_MAY_PASS[code]} ({error})")
    if code in _STAYS:
        return BackendError(f"{path} {_STAYS[code]} ({error})")
    if "Could not decode to UTF-8" in str(error):
        return UndecodableTextError(f"{path}: {error}")
    if "no such table" in str(error) or "no such column" in str(error):
        return SchemaMismatch(f"{path}: {error}: run `python -m scheduler_backends.sql migrate URL`")
    return BackendError(f"{path}: {error}")
