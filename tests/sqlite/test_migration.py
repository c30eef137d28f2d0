"""The tables: made once however many threads come at once, with whatever call, and brought up to date."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest

from scheduler.errors import SchemaMismatch
from scheduler.jobs import NewJob
from scheduler_backends.sqlite import SqliteBackend, schema

CALLS: list[Callable[[SqliteBackend], object]] = [
    lambda backend: backend.enqueue([NewJob(type="mail")]),
    SqliteBackend.migrate,
    SqliteBackend.schema_version,
    SqliteBackend.stats,
]


@pytest.mark.parametrize("share", ["nothing", "the backend", "the file"])
def test_threads_that_use_an_empty_file_at_once_make_it_once(path, share):
    """Each with a backend of its own, all with one, or with tables of their own that are the first in the file."""
    prefixes = [f"p{number}_" if share == "the file" else "scheduler_" for number in range(8)]
    gate = threading.Barrier(8)

    def call(backend: SqliteBackend, number: int) -> None:
        gate.wait(30)
        CALLS[number % len(CALLS)](backend)

    with ExitStack() as stack, ThreadPoolExecutor(8) as threads:
        if share == "the backend":
            backends = [SqliteBackend(path, migrate=True)] * 8
        else:
            backends = [SqliteBackend(path, prefix=prefix, migrate=True) for prefix in prefixes]
        for backend in backends:
            stack.callback(backend.close)
        list(threads.map(call, backends, range(8)))
        for backend in backends:
            backend.ping()
            assert backend.schema_version() == 1


def test_an_older_schema_is_brought_up_to_date_with_its_jobs(backend, path, monkeypatch):
    (answer,) = backend.enqueue([NewJob(type="mail")])
    step = ("ALTER TABLE {p}job ADD COLUMN remark TEXT", "CREATE INDEX {p}job_remark ON {p}job (remark)")
    monkeypatch.setattr(schema.DIALECT, "steps", (*schema.DIALECT.steps, step))  # the next release
    with closing(SqliteBackend(path, migrate=False)) as careful:
        for call in (careful.ping, careful.check_schema):
            with pytest.raises(SchemaMismatch, match="version 1, and this release needs 2"):
                call()
        assert careful.migration_sql(1).count("job_remark") == 1
        with closing(SqliteBackend(path)) as newer:
            assert set(newer.get("default", [answer.job.id])) == {answer.job.id}
            assert newer.schema_version() == 2
            assert newer.migrate() == 0
        careful.ping()


def test_the_sql_makes_the_same_schema(backend, path):
    with closing(sqlite3.connect(path)) as direct:
        direct.execute("PRAGMA journal_mode = WAL")
        direct.executescript(backend.migration_sql())
    assert backend.migrate() == 0
    backend.enqueue([NewJob(type="mail")])
    assert "CREATE" not in backend.migration_sql(1)
