"""Connections to the file. Each remembers which file it has open."""

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
# Bytes. The log grows during a long read, and without a limit SQLite never shrinks it.
_LONGEST_LOG: Final = 32 * 1024 * 1024
_serials = count()


class Connection(sqlite3.Connection):
    """Connection that only its own process closes. SQLite forbids a forked child to close an inherited one."""

    def __init__(self, *args: object, **options: object) -> None:
        self.pid = os.getpid()  # first, because `close` reads it even if the rest fails
        super().__init__(*args, **options)  # type: ignore[arg-type]  # the arguments of sqlite3.connect
        self.serial = next(_serials)
        self._file = (0, 0, 0)
        self.log = ""

    def close(self) -> None:
        """Close the connection. If another process opened it, keep it in memory for ever instead."""
        if self.pid == os.getpid():
            super().close()
        else:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))

    def remember_file(self, path: str, real_path: str) -> None:
        """Remember which file and which log are open. Call it once both are open."""
        self.log = f"{real_path}-wal"
        self._file = _found(path, self.log)

    def is_current(self, path: str) -> bool:
        """Return whether the file at *path* and its log are the ones that are open."""
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
    Open the file at *path* in autocommit mode. Its journal mode does not change.

    Args:
        path: the file, or a symbolic link to it.
        timeout: seconds to wait for other writers.
        synchronous: see `SqliteBackend`.
        create: create the file if it does not exist.
        accepts_any_text: see `File.accept_any_text`.
    """
    real_path = os.path.realpath(path)  # SQLite's own files and the lock file are next to it
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
        # Every job is checked before it is stored. With the constraints on, a row that another program wrote in
        # violation of them would fail each statement that changes it, and with it the whole batch.
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()  # opens the file and its log
        connection.remember_file(path, real_path)
    except BaseException:
        connection.close()
        raise
    return connection


def any_text(text: bytes) -> str:
    """Decode *text*, with a surrogate for each byte that is not valid UTF-8."""
    return text.decode("utf-8", "surrogateescape")


def is_wal(connection: Connection) -> bool:
    """Return whether the file is in WAL mode."""
    return bool(connection.execute("PRAGMA journal_mode").fetchone() == ("wal",))


def use_wal(connection: Connection, path: str) -> None:
    """Switch the file at *path* to WAL mode if it is in another mode. The file keeps this mode."""
    if not is_wal(connection):
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()  # creates the log
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
