"""Opening of the file. The first time it may be created and migrated; later it must still have the schema."""

from __future__ import annotations

import os

from scheduler.errors import BackendError, SchemaMismatch
from scheduler_backends.sqlite.connection import Connection, connect, is_empty, is_wal, use_wal
from scheduler_backends.sqlite.options import Options
from scheduler_backends.sqlite.schema import schema_of
from scheduler_backends.sqlite.slots import Open


class Opening:
    """Opens connections. The caller holds the lock of the slot that the connection is for."""

    def __init__(self, path: str, options: Options) -> None:
        self._path = path
        self._options = options
        self.schema = schema_of(options.prefix, may_migrate=options.migrate)
        self.was_open = False  # once True, a missing file is not created: an operator may be restoring it
        self.accepts_any_text = False

    def reader(self, mine: Open) -> None:
        """Open the reader of *mine*, unless something must be written first. A reader never waits for a writer."""
        if is_empty(self._path):
            return
        connection = mine.reader.connection or self.connect()
        if is_wal(connection) and self._has_schema(connection):
            mine.reader.connection = connection
            mine.is_prepared = self.was_open = True
        elif connection is not mine.reader.connection:
            connection.close()

    def writer(self, mine: Open, *, prepared: bool) -> Connection:
        """Open the writer of *mine*. The caller is inside the gate. *prepared*: see `File.writing`."""
        connection = self.connect()
        try:
            if prepared and self.was_open:  # raises if the schema is missing, before anything is written
                self._has_schema(connection)
            use_wal(connection, self._path)
            if not prepared:  # not kept in the slot, so the next writer checks the schema
                return connection
            if not self._has_schema(connection):
                connection.execute("BEGIN IMMEDIATE")
                # Reads the version again, since another process may have migrated meanwhile.
                self.schema.migrate_on(connection.execute)
                connection.execute("COMMIT")
        except BaseException:
            connection.close()  # rolls back
            raise
        mine.writer.connection = connection
        mine.is_prepared = self.was_open = True
        return connection

    def connect(self) -> Connection:
        """Return a new connection. Raises `BackendError` if the file was open before and no longer exists."""
        if self.was_open and not os.path.exists(self._path):  # noqa: PTH110 - like os.path.realpath
            raise BackendError(f"{self._path} was removed: put it back, or restart the program to begin a new file")
        return connect(
            self._path,
            timeout=self._options.timeout,
            synchronous=self._options.synchronous,
            create=not self.was_open,
            accepts_any_text=self.accepts_any_text,
        )

    def _has_schema(self, connection: Connection) -> bool:
        try:
            if self.schema.is_current(connection.execute):
                return True
        except SchemaMismatch:
            if not self.was_open:
                raise
        if self.was_open:  # a backup may be being copied to this path: do not write to it
            raise BackendError(f"{self._path} is now another file, and not one of this release: restart the program")
        return False
