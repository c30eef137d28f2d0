"""
The file and this process's two connections to it: one that writes, one that reads.

All writing goes through `writing`, one transaction at a time: threads of this process by a lock, processes by the gate.
Readers see the last commit and wait for nobody (write-ahead log).
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Literal

from scheduler.errors import BackendClosed, BackendError, BackendUnavailable, NotSupported
from scheduler_backends.sqlite.errors import translated
from scheduler_backends.sqlite.gate import Gate

Synchronous = Literal["full", "normal"]
_PRAGMAS: Mapping[Synchronous, str] = {
    "full": "PRAGMA synchronous = FULL",
    "normal": "PRAGMA synchronous = NORMAL",
}
_OLDEST: Final = (3, 37, 0)  # RETURNING needs 3.35; older than 3.37 was never tried

# Connections of a parent process. SQLite forbids a child even to close them, which dropping the last reference would.
_of_parents: list[object] = []
_files: weakref.WeakSet[File] = weakref.WeakSet()


class File:
    """A database file. Safe in any thread; connects when first used, and anew after a fork."""

    def __init__(
        self,
        path: str,
        *,
        synchronous: Synchronous,
        timeout: float,
        is_prepared: Callable[[sqlite3.Connection], bool],
        prepare: Callable[[sqlite3.Connection], object],
    ) -> None:
        if sqlite3.sqlite_version_info < _OLDEST:
            needed = ".".join(map(str, _OLDEST))
            raise NotSupported(f"SQLite {needed} or newer is needed; this Python has {sqlite3.sqlite_version}")
        self.path = path
        self._synchronous = synchronous
        self._timeout = timeout
        # Asked when a process first opens the file; the second one, in a write transaction, if the first says no.
        self._is_prepared = is_prepared
        self._prepare = prepare
        self._closed = False
        self._begin_anew()

        _files.add(self)

    def _begin_anew(self) -> None:
        self._write_lock = threading.Lock()  # guards _writer and _gate, and admits one writing thread
        self._read_lock = threading.Lock()  # guards _reader
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._gate: Gate | None = None

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """
        One write transaction: committed at the end of the block, rolled back when it raises.

        Raises `BackendUnavailable` when another process holds the file for longer than the timeout.
        """
        self._check_open()
        with self._write_locked():
            connection = self._open_writer()
            with self._transaction(connection):
                yield connection

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The reading connection. Each statement sees the last commit."""
        self._check_open()
        if self._writer is None:
            self._open_first()
        if not self._read_lock.acquire(timeout=self._timeout):
            raise BackendUnavailable(f"{self.path}: another thread of this process reads for too long")
        try:
            self._check_open()
            if self._reader is None:
                self._reader = self.connect()
            yield self._reader
        except sqlite3.Error as error:
            raise translated(error, self.path) from error
        finally:
            self._read_lock.release()

    def connect(self) -> sqlite3.Connection:
        """A connection of its own to the file, in autocommit mode, for whoever closes it."""
        connection = sqlite3.connect(
            self.path, timeout=self._timeout, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        try:
            connection.execute(_PRAGMAS[self._synchronous])
            # In effect once for the file, whoever asks: a no-op afterwards.
            connection.execute("PRAGMA journal_mode = WAL")
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        """Close both connections once the calls under way have ended. Later calls raise `BackendClosed`."""
        self._closed = True
        with self._write_lock, self._read_lock:
            for connection in (self._reader, self._writer):  # the last writer to close tidies the log away
                if connection is not None:
                    connection.close()
            if self._gate is not None:
                self._gate.close()
            self._writer = self._reader = self._gate = None

    def _check_open(self) -> None:
        if self._closed:
            raise BackendClosed(f"the backend on {self.path} is closed")

    def begin_anew_in_child(self) -> None:
        """Leave the parent's connections and locks behind; its threads may have held them at the fork."""
        _of_parents.extend((self._writer, self._reader))
        if self._gate is not None:
            self._gate.close()  # a copy of the descriptor: the parent's lock stays
        self._begin_anew()

    def _open_first(self) -> None:
        with self._write_locked():
            self._open_writer()

    @contextmanager
    def _write_locked(self) -> Iterator[None]:
        if not self._write_lock.acquire(timeout=self._timeout):
            raise BackendUnavailable(f"{self.path}: another thread of this process writes for too long")
        try:
            self._check_open()
            yield
        except sqlite3.Error as error:
            raise translated(error, self.path) from error
        finally:
            self._write_lock.release()

    @contextmanager
    def _transaction(self, connection: sqlite3.Connection) -> Iterator[None]:
        gate = self._open_gate()
        if not gate.enter(self._timeout):
            raise BackendUnavailable(f"{self.path} is held by another process for more than {self._timeout:g} s")
        try:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:  # after a full disk, say, SQLite has rolled back by itself
                    connection.execute("ROLLBACK")
                raise
        finally:
            gate.leave()

    def _open_writer(self) -> sqlite3.Connection:
        if self._writer is None:
            connection = self.connect()
            try:
                if not self._is_prepared(connection):
                    with self._transaction(connection):
                        self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._writer = connection
        return self._writer

    def _open_gate(self) -> Gate:
        if self._gate is None:
            try:
                self._gate = Gate(f"{self.path}-lock")
            except OSError as error:
                raise BackendError(f"{self.path}-lock cannot be opened: {error.strerror}") from error
        return self._gate


def _after_fork_in_child() -> None:
    for file in list(_files):
        file.begin_anew_in_child()


os.register_at_fork(after_in_child=_after_fork_in_child)
