"""Connections and descriptors that one process has open for a file."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable

from scheduler.critical import StoreLock
from scheduler.errors import BackendClosed
from scheduler.sleeping import Ownership
from scheduler_backends.sqlite.connection import Connection, any_text
from scheduler_backends.sqlite.gate import Gate


class Slot:
    """Connection (None = not open), and the lock that a thread holds while it uses the connection."""

    def __init__(self) -> None:
        self.lock = StoreLock()
        self.connection: Connection | None = None

    def drop(self) -> None:
        """Close the connection. The caller holds the lock."""
        connection, self.connection = self.connection, None  # first, since a Ctrl-C may come after the close
        if connection is not None:
            connection.close()

    def abandon(self) -> None:
        """Drop the connection without ever closing it."""
        if self.connection is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.connection))
            self.connection = None


class Open:
    """All connections of one process to the file. The writer's lock guards the gate."""

    def __init__(self) -> None:
        self.writer, self.reader, self.watcher = Slot(), Slot(), Slot()
        self.slots = (self.writer, self.reader, self.watcher)
        self.gate: Gate | None = None
        self.is_prepared = False  # the schema has been checked
        self._canary: Ownership | None = None  # of a pipe that stays open while connections may be open
        self._canary_lock = threading.RLock()  # guards _canary; re-entrant for signal handlers
        self._is_broken = False

    def check_descriptors(self) -> None:
        """
        Raise `BackendClosed` if other code, such as a handler, has closed the file descriptors of this process.

        SQLite's descriptors were then closed too, and their numbers may belong to other files by now. SQLite would
        write to those files and damage them, or the database. So the connections can be neither used nor closed.
        """
        with self._canary_lock:
            if self._canary is None:
                readable, writable = os.pipe()
                os.close(writable)
                self._canary = Ownership(readable)
        if self._are_descriptors_closed():
            raise BackendClosed("the file descriptors of this process were closed: it must be restarted")

    def _are_descriptors_closed(self) -> bool:
        """Return True if other code has closed the descriptors. Once True, it stays so."""
        with self._canary_lock:
            if self._canary is not None and not self._canary.is_mine():
                self._is_broken = True
            return self._is_broken

    def drop(self, slot: Slot) -> None:
        """Close the connection of *slot*. The caller holds its lock."""
        if self._are_descriptors_closed():
            slot.abandon()
        else:
            slot.drop()

    def drop_all(self) -> None:
        """Close the connections and the gate. The caller holds all locks."""
        with self._canary_lock:
            is_broken = self._are_descriptors_closed()
            canary, self._canary = self._canary, None
            if canary is not None and not is_broken:
                os.close(canary.descriptor)
        if is_broken:
            for slot in self.slots:
                slot.abandon()
            self.gate = None
            return
        for slot in reversed(self.slots):  # the last writer to close removes the log
            slot.drop()
        if self.gate is not None:
            self.gate.close()
            self.gate = None

    def accept_any_text(self) -> None:
        """Make the open connections accept any text. Thread-safe."""
        for slot in self.slots:
            if (connection := slot.connection) is not None:
                connection.text_factory = any_text

    def suspend(self, timeout: float, resumes: list[Callable[[], None]]) -> None:
        """
        Take all locks, waiting up to *timeout* seconds for each, and close everything if all were taken.

        Functions that release the locks are added to *resumes*.
        """
        held = [slot.lock.acquire_once(timeout, resumes) for slot in self.slots]
        if all(held):
            self.drop_all()
