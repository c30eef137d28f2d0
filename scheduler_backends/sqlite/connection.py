"""A connection to the file: how it is opened, and which file is open."""

from __future__ import annotations

import ctypes
import os
import sqlite3
from itertools import count
from pathlib import Path
from typing import Final, Literal
from urllib.parse import quote

from scheduler.errors import NotSupported

_OLDEST: Final = (3, 37, 0)  # RETURNING needs 3.35; older than 3.37 was never tried

Synchronous = Literal["full", "normal"]
# Bytes. A long read makes the log grow, and SQLite never shrinks it by itself.
_LONGEST_LOG: Final = 32 * 1024 * 1024
_serials = count()


class Connection(sqlite3.Connection):
    """Closed only by the process that opened it: a child of a fork must not even close a copy (SQLite's own rule)."""

    def __init__(self, *args: object, **options: object) -> None:
        self.pid = os.getpid()  # first: `close` reads it even where the rest fails
        super().__init__(*args, **options)  # type: ignore[arg-type]  # what sqlite3.connect passes on
        self.serial = next(_serials)
        self._file = (0, 0, 0)
        self.log = ""

    def close(self) -> None:
        """Close it, or keep it for ever if another process has opened it."""
        if self.pid == os.getpid():
            super().close()
        else:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))

    def remember_file(self, path: str, real_path: str) -> None:
        """Remember which file and which log are open. To be called once both are."""
        self.log = f"{real_path}-wal"
        self._file = _found(path, self.log)

    def is_current(self, path: str) -> bool:
        """Return whether the file at *path* is the one that is open, and the log beside it as well."""
        try:
            return _found(path, self.log) == self._file
        except FileNotFoundError:
            return False

    def __del__(self) -> None:
        if self.pid != os.getpid():
            self.close()


def check_sqlite() -> None:
    """Raise `NotSupported` if this Python's SQLite is too old."""
    if sqlite3.sqlite_version_info < _OLDEST:
        needed = ".".join(map(str, _OLDEST))
        raise NotSupported(f"SQLite {needed} or newer is needed; this Python has {sqlite3.sqlite_version}")


def connect(path: str, *, timeout: float, synchronous: Synchronous, create: bool, accepts_any_text: bool) -> Connection:
    """
    Open the file at *path*, in autocommit mode and with the journal that it has.

    Args:
        path: of the file; may be a symbolic link.
        timeout: seconds to wait for other writers.
        synchronous: see `SqliteBackend`.
        create: create the file if it does not exist.
        accepts_any_text: see `File.accept_any_text`.
    """
    real_path = os.path.realpath(path)  # SQLite's own files and the gate are beside it
    connection = sqlite3.connect(
        f"file:{quote(os.fsencode(real_path))}?mode={'rwc' if create else 'rw'}",
        uri=True,
        timeout=timeout,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
        factory=Connection,
    )
    if accepts_any_text:
        connection.text_factory = any_text
    try:
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute(f"PRAGMA journal_size_limit = {_LONGEST_LOG}")
        # Every job is checked before it is stored. A row that another program has written past the constraints would
        # end each statement that changes it, and with it the whole batch.
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()  # this opens the file and its log
        connection.remember_file(path, real_path)
    except BaseException:
        connection.close()
        raise
    return connection


def any_text(text: bytes) -> str:
    """Decode *text*, which may not be UTF-8, with a surrogate for each wrong byte."""
    return text.decode("utf-8", "surrogateescape")


def is_wal(connection: Connection) -> bool:
    """Return whether the file has a write-ahead log."""
    return bool(connection.execute("PRAGMA journal_mode").fetchone() == ("wal",))


def use_wal(connection: Connection, path: str) -> None:
    """Give the file at *path* a write-ahead log, which it keeps for ever, unless it has one."""
    if not is_wal(connection):
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()  # this makes the log
        connection.remember_file(path, os.path.realpath(path))


def is_empty(path: str) -> bool:
    """Return whether there is no file, or an empty one."""
    try:
        return Path(path).stat().st_size == 0
    except FileNotFoundError:
        return True


def _found(path: str, log: str) -> tuple[int, int, int]:
    file = os.stat(path)  # noqa: PTH116 - Path.stat takes three times as long, and every call does this
    try:
        return file.st_dev, file.st_ino, os.stat(log).st_ino  # noqa: PTH116 - as above
    except FileNotFoundError:
        return file.st_dev, file.st_ino, 0
