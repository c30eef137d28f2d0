"""
The file and this process's two connections to it: one that writes, one that reads.

All writing goes through `writing`, one transaction at a time: threads of this process by a lock, processes by the gate.
Readers see the last commit and wait for nobody (write-ahead log).
"""

from __future__ import annotations

import errno
import os
import sqlite3
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Literal

from scheduler.errors import BackendClosed, BackendError, BackendUnavailable, NotSupported
from scheduler.locks import StoreLock
from scheduler_backends.sql.connections import Execute
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
        is_prepared: Callable[[Execute], bool],
        prepare: Callable[[Execute], object],
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
        self._takes_any_text = False
        self._begin_anew()

        _files.add(self)

    def _begin_anew(self) -> None:
        self._write_lock = StoreLock()  # guards _writer and _gate, and admits one writing thread
        self._read_lock = StoreLock()  # guards _reader
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._gate: Gate | None = None

    @contextmanager
    def writing(self, *, single: bool = False, prepared: bool = True) -> Iterator[sqlite3.Connection]:
        """
        One write transaction: committed at the end of the block, rolled back when it raises.

        single: the block runs one statement, which is a transaction by itself. prepared: False = nobody has seen to the
        schema yet. Raises `BackendUnavailable` when another process, or another thread of this one, is writing for
        longer than the timeout.
        """
        self._write_lock.refuse_mine()
        try:
            if not self._write_lock.acquire(self._timeout):
                raise self._busy("another thread of this process")
            gate = self._enter()
            try:
                connection = self._writer or self._open_writer(prepared=prepared)
                try:
                    if not single:
                        connection.execute("BEGIN IMMEDIATE")
                    yield connection
                    if not single:
                        connection.execute("COMMIT")
                except BaseException:
                    if connection.in_transaction:  # a full disk, say, rolls back by itself
                        connection.execute("ROLLBACK")
                    raise
                finally:
                    if connection is not self._writer:
                        connection.close()
            finally:
                gate.leave()
        except sqlite3.Error as error:
            raise translated(error, self.path) from error
        finally:
            self._write_lock.release_mine()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The reading connection. Each statement sees the last commit."""
        if self._writer is None:  # the first to open the file sees to its schema
            with self.writing(single=True):
                pass
        self._read_lock.refuse_mine()
        try:
            if not self._read_lock.acquire(self._timeout):
                raise self._busy("another thread of this process")
            self._check_open()
            if self._reader is None:
                self._reader = self.connect()
            yield self._reader
        except sqlite3.Error as error:
            raise translated(error, self.path) from error
        finally:
            self._read_lock.release_mine()

    def connect(self) -> sqlite3.Connection:
        """A connection of its own to the file, in autocommit mode, for whoever closes it."""
        connection = sqlite3.connect(
            self.path,
            timeout=self._timeout,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        try:
            if self._takes_any_text:
                connection.text_factory = _any_text
            connection.execute(_PRAGMAS[self._synchronous])
            # Ours are kept by what checks a job: here, a row of another program's would end every batch it is in.
            connection.execute("PRAGMA ignore_check_constraints = ON")
            # In effect once for the file, whoever asks: a no-op afterwards.
            connection.execute("PRAGMA journal_mode = WAL")
        except BaseException:
            connection.close()
            raise
        return connection

    def take_any_text(self) -> None:
        """From now on, text that is no UTF-8 is read with a surrogate for each byte at fault, instead of raising."""
        self._takes_any_text = True
        for connection in (self._reader, self._writer):
            if connection is not None:
                connection.text_factory = _any_text

    @property
    def is_open(self) -> bool:
        """Whether this process has opened the file, and so seen to its schema."""
        return self._writer is not None

    def prepare(self, execute: Execute) -> None:
        """See to the schema by statements of a write transaction."""
        if not self._is_prepared(execute):
            self._prepare(execute)

    def close(self) -> None:
        """Close both connections once the calls under way have ended. Later calls raise `BackendClosed`."""
        self._closed = True
        with self._write_lock.entry(), self._read_lock.entry():
            for connection in (self._reader, self._writer):  # the last writer to close tidies the log away
                if connection is not None:
                    connection.close()
            if self._gate is not None:
                self._gate.close()
            self._writer = self._reader = self._gate = None

    def begin_anew_in_child(self) -> None:
        """Leave the parent's connections and locks behind; its threads may have held them at the fork."""
        _of_parents.extend((self._writer, self._reader))
        if self._gate is not None:
            self._gate.close()  # a copy of the descriptor: the parent's lock stays
        self._begin_anew()

    def _check_open(self) -> None:
        if self._closed:
            raise BackendClosed(f"the backend on {self.path} is closed")

    def _busy(self, who: str) -> BackendUnavailable:
        return BackendUnavailable(f"{self.path} is held by {who} for more than {self._timeout:g} s")

    def _enter(self) -> Gate:
        self._check_open()
        if self._gate is None:
            try:
                self._gate = Gate(f"{self.path}-lock")
            except OSError as error:
                stays = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
                kind = BackendError if stays else BackendUnavailable
                raise kind(f"{self.path}-lock cannot be opened: {error.strerror}") from error
        if not self._gate.enter(self._timeout):
            raise self._busy("another process")
        return self._gate

    def _open_writer(self, *, prepared: bool) -> sqlite3.Connection:
        connection = self.connect()
        if not prepared:  # it is not kept: who writes next looks at the schema
            return connection
        try:
            if not self._is_prepared(connection.execute):
                connection.execute("BEGIN IMMEDIATE")
                self.prepare(connection.execute)  # asks once more: another process may have been faster
                connection.execute("COMMIT")
        except BaseException:
            connection.close()  # rolls back
            raise
        self._writer = connection
        return connection


def _any_text(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")


def _after_fork_in_child() -> None:
    for file in list(_files):
        file.begin_anew_in_child()


os.register_at_fork(after_in_child=_after_fork_in_child)
