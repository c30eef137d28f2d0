"""What a plain job costs is counted exactly: nothing that it does not use adds a statement."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import ClassVar

import pytest

from plain_job import FurtherTables, PlainJobCosts
from scheduler_backends.sql.columns import COLUMNS, UNREAD
from scheduler_backends.sqlite.slots import Open


class TestPlainJob(PlainJobCosts):
    moves: ClassVar = {  # with BEGIN and COMMIT
        "enqueue": 1,
        "promote": 1,
        "lease": 6,
        "renew": 3,
        "retry": 3,
        "release": 3,
        "complete": 3,
        "bury": 3,
    }
    bytes_of_unread = len(UNREAD)  # each is one byte of the row's header

    @pytest.fixture
    def statements(self, backend):
        def statements(call):
            mine = backend._store.file._open.get(Open)
            texts = []
            for slot in mine.slots:
                if slot.connection is not None:
                    slot.connection.set_trace_callback(texts.append)
            call()
            for slot in mine.slots:
                if slot.connection is not None:
                    slot.connection.set_trace_callback(None)
            return texts

        return statements

    @pytest.fixture
    def bytes_for_unread(self, path):
        def bytes_for_unread():
            with closing(sqlite3.connect(path, isolation_level=None)) as other:
                sizes = []
                for columns in (COLUMNS, [*COLUMNS, *UNREAD]):
                    # `payload` counts the bytes of the rows in the pages of a table.
                    other.execute(f"CREATE TEMP TABLE one AS SELECT {', '.join(columns)} FROM scheduler_job")
                    sizes += other.execute("SELECT sum(payload) FROM dbstat('temp') WHERE name = 'one'").fetchone()
                    rows = other.execute("SELECT count(*) FROM one").fetchone()[0]
                    other.execute("DROP TABLE one")
            assert rows == 2
            return (sizes[1] - sizes[0]) // rows

        return bytes_for_unread


class TestFurtherTables(FurtherTables):
    @pytest.fixture
    def refusal(self):
        return sqlite3.IntegrityError

    @pytest.fixture
    def insert(self, backend, path):
        backend.migrate()

        def insert(table, columns, values):
            with closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute(f"INSERT INTO scheduler_{table} ({columns}) VALUES ({values})")

        return insert
