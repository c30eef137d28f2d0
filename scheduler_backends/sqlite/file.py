"""
The file and this process's three connections to it: one writes, one reads, and one watches for commits.

All writes go through `File.writing`, one transaction at a time: a lock orders the threads of this process, and the gate
orders the processes. Readers see the last commit and never wait for writers, because the file is in WAL mode.
"""

from __future__ import annotations

import math
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from scheduler.errors import BackendClosed, BackendError, BackendUnavailable
from scheduler.processes import PerProcess, suspend_at_forks, suspend_briefly
from scheduler_backends.sqlite.connection import Connection, check_sqlite, is_empty
from scheduler_backends.sqlite.errors import OUTSIDE_ERRORS, cause_of, is_of_connection, translated
from scheduler_backends.sqlite.gate import Gate
from scheduler_backends.sqlite.opening import Opening
from scheduler_backends.sqlite.options import Options
from scheduler_backends.sqlite.slots import Open, Slot


class File:
    """Database file. Thread-safe. Connects when first used, and again in a forked child."""

    def __init__(self, path: str, options: Options) -> None:
        check_sqlite()
        self.path = path
        self.options = options
        self._opening = Opening(path, options)
        self.schema = self._opening.schema
        self._closed = False
        self._wrote_at = 0.0
        self._open: PerProcess[Open] = PerProcess()
        suspend_at_forks(self)

    @contextmanager
    def writing(self, *, single: bool = False, prepared: bool = True) -> Iterator[sqlite3.Connection]:
        """
        Run the block in a write transaction. Commit it at the end, or roll it back if the block raises.

        With *single*, the block runs one statement, which is a transaction by itself. With *prepared* False, the schema
        is not checked first: for statements that read or migrate it. Raises `BackendUnavailable` if another process or
        thread writes for longer than the timeout.
        """
        mine = self._open.get(Open)
        try:
            with self._using(mine.writer), self._gate(mine):
                self._check_file(mine, mine.writer)  # after the wait: the file may have been replaced meanwhile
                connection = mine.writer.connection or self._opening.writer(mine, prepared=prepared)
                self._wrote_at = math.inf
                try:
                    if not single:
                        connection.execute("BEGIN IMMEDIATE")
                    yield connection
                    if not single:
                        connection.execute("COMMIT")
                except BaseException:
                    if connection.in_transaction:  # some errors, such as a full disk, roll back by themselves
                        connection.execute("ROLLBACK")
                    raise
                finally:
                    self._wrote_at = time.monotonic()
                    if connection is not mine.writer.connection:
                        connection.close()
        except BackendError as error:
            if is_of_connection(error.__cause__):
                # SQLite shares state between the connections of a process: if one of them opened the file read-only, it
                # stays read-only for all. So all of them are closed, and opened again when used.
                suspend_briefly(lambda member: isinstance(member, File) and member.path == self.path)
            raise

    @contextmanager
    def reading(self, *, watching: bool = False) -> Iterator[Connection]:
        """
        Lend the reading connection to the block. Each statement sees the last commit.

        With *watching*, lend the connection of the waiters instead, because a call may hold the other one for long.
        """
        mine = self._open.get(Open)
        if not mine.is_prepared:
            self._check_schema(mine)
        slot = mine.watcher if watching else mine.reader
        with self._using(slot):
            self._check_file(mine, slot)
            if slot.connection is None:
                slot.connection = self._opening.connect()
            yield slot.connection

    def wrote_since(self, moment: float) -> bool:
        """Return whether this process is writing, or has written since *moment*, by `time.monotonic`."""
        return self._wrote_at >= moment

    def accept_any_text(self) -> None:
        """Make all later reads decode invalid UTF-8 with surrogates instead of raising."""
        self._opening.accepts_any_text = True
        self._open.get(Open).accept_any_text()

    @property
    def is_open(self) -> bool:
        """Whether this process has opened the file, and so has checked its schema."""
        return self._open.get(Open).is_prepared

    def check_open(self) -> None:
        """Raise `BackendClosed` after `close`. For calls with nothing to do, which use no connection."""
        if self._closed:
            raise BackendClosed(f"the backend on {self.path} is closed")

    def close(self) -> None:
        """Close the connections after the running calls have ended. Later calls raise `BackendClosed`."""
        self._closed = True
        mine = self._open.get(Open)
        with mine.writer.lock.entry(), mine.reader.lock.entry(), mine.watcher.lock.entry():
            mine.drop_all()

    def suspend(self, resumes: list[Callable[[], None]]) -> None:
        """
        Close the connections, and block their use until *resumes* are called. See `Suspendable`.

        SQLite counts its locks per process. A forked child with copies of its parent's connections would take no locks
        itself, and other processes would delete the write-ahead log that it uses.
        """
        self._open.get(Open).suspend(self.options.timeout, resumes)

    @contextmanager
    def _using(self, slot: Slot) -> Iterator[None]:
        # Every use of a connection goes through here: one thread at a time, with translated errors.
        slot.lock.refuse_mine()
        try:
            if not slot.lock.acquire(self.options.timeout):
                raise BackendUnavailable(f"{self.path} was in use by another thread for {self.options.timeout:g} s")
            self.check_open()
            yield
        except OUTSIDE_ERRORS as error:
            if is_of_connection(error):
                self._open.get(Open).drop(slot)
            raise translated(error, self.path) from cause_of(error)
        finally:
            try:
                slot.lock.release_mine()
            finally:
                slot.lock.release_mine()  # if a Ctrl-C prevented the first call

    @contextmanager
    def _gate(self, mine: Open) -> Iterator[None]:
        if mine.gate is None:
            # Create the file first, because the lock file gets its mode.
            if is_empty(self.path) and not self._opening.was_open:
                self._opening.connect().close()
            mine.gate = Gate(os.path.realpath(self.path))
        gate = mine.gate
        gate.enter(self.options.timeout)
        try:
            yield
        finally:
            gate.leave()

    def _check_file(self, mine: Open, slot: Slot) -> None:
        mine.check_descriptors()
        # Commits to a file that was removed or replaced would be lost silently.
        if slot.connection is None or slot.connection.is_current(self.path):
            return
        # This is safe: SQLite notices that the file has moved, and does not remove the new file's log when it closes.
        slot.drop()
        mine.is_prepared = False
        if slot is mine.writer and mine.gate is not None:
            mine.gate.close()
            mine.gate = None
        raise BackendError(
            f"{self.path} or its log was removed or replaced while it was open; the next call opens what is there then"
        )

    def _check_schema(self, mine: Open) -> None:
        with self._using(mine.reader):
            self._check_file(mine, mine.reader)
            self._opening.reader(mine)
        if not mine.is_prepared:  # something must be written first
            with self.writing(single=True):
                pass
