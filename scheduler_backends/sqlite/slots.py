"""What one process has open of a file."""

from __future__ import annotations

from collections.abc import Callable

from scheduler.critical import StoreLock
from scheduler_backends.sqlite.connection import Connection, any_text
from scheduler_backends.sqlite.gate import Gate


class Slot:
    """A connection, None = not open, and the lock that one thread holds while it uses the connection."""

    def __init__(self) -> None:
        self.lock = StoreLock()
        self.connection: Connection | None = None

    def drop(self) -> None:
        """Close the connection. The caller holds the lock."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None


class Open:
    """What one process has open. The writer's lock guards the gate."""

    def __init__(self) -> None:
        self.writer, self.reader, self.watcher = Slot(), Slot(), Slot()
        self.slots = (self.writer, self.reader, self.watcher)
        self.gate: Gate | None = None
        self.is_prepared = False  # the schema was checked

    def drop_all(self) -> None:
        """Close everything. The caller holds all locks."""
        for slot in reversed(self.slots):  # the last writer to close removes the log
            slot.drop()
        if self.gate is not None:
            self.gate.close()
            self.gate = None

    def accept_any_text(self) -> None:
        """Make the open connections accept any text. For any thread."""
        for slot in self.slots:
            if (connection := slot.connection) is not None:
                connection.text_factory = any_text

    def suspend(self, timeout: float) -> Callable[[], None]:
        """
        Close everything and hold all locks, as far as they can be taken in *timeout* seconds each.

        Return a function that releases them.
        """
        # Not those of this thread: a signal handler that forks may have interrupted a call.
        locks = [slot.lock for slot in self.slots if not slot.lock.is_mine and slot.lock.acquire(timeout)]
        if len(locks) == len(self.slots):
            self.drop_all()

        def resume() -> None:
            for lock in locks:
                lock.release()

        return resume
