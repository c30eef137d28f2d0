"""What a plain job costs is counted exactly: nothing that it does not use adds a statement."""

from __future__ import annotations

from typing import ClassVar

import psycopg
import pytest

from plain_job import FurtherTables, PlainJobCosts
from scheduler_backends.sql.columns import COLUMNS, UNREAD


class TestPlainJob(PlainJobCosts):
    moves: ClassVar = dict.fromkeys(("enqueue", "promote", "lease", "renew", "retry", "release", "complete", "bury"), 1)
    bytes_of_unread = 0  # the bitmap of NULLs has room

    @pytest.fixture
    def statements(self, backend, monkeypatch):
        def statements(call):
            texts = []
            execute = psycopg.Cursor.execute

            def counted(cursor, query, *args, **options):
                texts.append(query)
                return execute(cursor, query, *args, **options)

            with monkeypatch.context() as patch:
                patch.setattr(psycopg.Cursor, "execute", counted)
                call()
            # At most one every 10 ms.
            return [text for text in texts if text != backend._store.statements.enqueue.notify]

        return statements

    @pytest.fixture
    def bytes_for_unread(self, postgres_url, schema):
        def bytes_for_unread():
            sizes = []
            with psycopg.connect(postgres_url) as other:
                for columns in (COLUMNS, [*COLUMNS, *UNREAD]):
                    other.execute(f"CREATE TEMP TABLE one AS SELECT {', '.join(columns)} FROM {schema}.job")
                    sizes += other.execute("SELECT sum(pg_column_size(one.*)) FROM one").fetchone()
                    other.execute("DROP TABLE one")
            return sizes[1] - sizes[0]

        return bytes_for_unread


class TestFurtherTables(FurtherTables):
    @pytest.fixture
    def refusal(self):
        return psycopg.IntegrityError

    @pytest.fixture
    def insert(self, backend, postgres_url, schema):
        backend.migrate()

        def insert(table, columns, values):
            with psycopg.connect(postgres_url, autocommit=True) as other:
                other.execute(f"INSERT INTO {schema}.{table} ({columns}) VALUES ({values})")

        return insert
