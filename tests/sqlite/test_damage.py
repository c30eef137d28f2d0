"""Rows that other programs damaged, and a file of theirs without constraints."""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack, closing

import pytest

from row_damage import RowDamage, UnreadDamage, add, counts, ids, job, lease
from scheduler.states import JobState
from scheduler_backends.sqlite import SqliteBackend


class TestRows(RowDamage, UnreadDamage):
    @pytest.fixture
    def new_backend(self, path):
        with ExitStack() as stack:

            def open_backend(**options):
                backend = SqliteBackend(path, **options)
                stack.callback(backend.close)
                return backend

            yield open_backend

    @pytest.fixture
    def checks(self, spoil):
        def checks(**columns):
            with pytest.raises(sqlite3.IntegrityError):
                spoil(strict=False, **columns)
            return True

        return checks


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("payload", "text"),
        ("result", "text"),
        ("type", b"blob"),
        ("timeout", "soon"),
        ("max_retries", "some"),
        ("created_at", "yesterday"),
        ("run_at", "soon"),
        ("metadata", b"{}"),
        ("metadata", "{"),
        ("errors", "["),
        ("retry_policy", "{"),
    ],
)
def test_a_value_of_another_type_is_refused_and_where_it_is_there_buried(backend, path, spoil, column, value):
    """It is there in a table that another program made anew, without STRICT."""
    add(backend, "bad", "good")
    with pytest.raises(sqlite3.IntegrityError):
        spoil(strict=False, **{column: value})
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA writable_schema = ON")
        other.execute("UPDATE sqlite_schema SET sql = replace(sql, ') STRICT', ')') WHERE name = 'scheduler_job'")
        (version,) = other.execute("PRAGMA schema_version").fetchone()
        other.execute(f"PRAGMA schema_version = {version + 1}")
    spoil(**{column: value})
    assert job(backend).unreadable == (column,)
    assert ids(lease(backend)) == ["good"]
    assert counts(backend) == {JobState.LEASED: 1, JobState.DEAD: 1}
    assert [one.unreadable for one in backend.list("default", JobState.DEAD).jobs] == [(column,)]
    assert column in job(backend).last_error.message


@pytest.mark.parametrize(
    "column", ["type", "metadata", "errors", "retry_policy", "idempotency_key", "nonce", "key", "id"]
)
def test_text_that_is_no_utf8_harms_nobody_else(backend, path, column):
    """SQLite takes it for text, and Python's driver then reads no row of the statement."""
    add(backend, "bad", "good")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA ignore_check_constraints = ON")
        other.execute(f"UPDATE scheduler_job SET {column} = CAST(x'62fffe' AS TEXT) WHERE id = 'bad'")
    ready = {one.id: one for one in backend.list("default", JobState.READY).jobs}
    assert "good" in ready
    assert len(ready) == 2
    leased = ids(lease(backend))
    if column in ("nonce", "key"):  # neither is part of the job
        assert leased == ["bad", "good"]
    else:
        assert leased == ["good"]
        (dead,) = backend.list("default", JobState.DEAD).jobs
        assert dead.unreadable == (column,)
        assert backend.purge("default", JobState.DEAD, 10) == 1
    assert {row.queue for row in backend.stats()} == {"default"}
