"""Rows that other programs damaged, and a file of theirs without constraints."""

from __future__ import annotations

import sqlite3
import traceback
from contextlib import ExitStack, closing

import pytest
import sqlalchemy as sa

from row_damage import RowDamage, UnreadDamage, add, counts, ids, job, lease
from scheduler.errors import BackendError
from scheduler.jobs import NewJob
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


def alchemy(path):
    return sa.create_engine(f"sqlite:///{path}", poolclass=sa.NullPool).connect()  # nothing stays open


def no_utf8(path, column="id", **others):
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA ignore_check_constraints = ON")
        values = ", ".join(f"{name} = ?" for name in others)
        changed = f"UPDATE scheduler_job SET {column} = CAST(x'62fffe' AS TEXT){', ' * bool(others)}{values}"
        assert other.execute(f"{changed} WHERE id = 'bad'", (*others.values(),)).rowcount == 1


@pytest.mark.parametrize("others", [{"priority": 77}, {"state": 9}, {"due_at": 2**62}], ids=str)
def test_a_stray_row_whose_id_is_no_utf8_stops_neither_recovery_nor_trimming(backend, path, others, caplog):
    add(backend, "bad", "good")
    no_utf8(path, **others)
    assert ids(lease(backend, duration=0.001)) == ["good"]
    while not backend.recover_expired(["default"], 100).ready:
        pass
    assert counts(backend) == {JobState.READY: 1, JobState.DEAD: 1}
    assert backend.trim(["default"], 100) == 0
    assert ids(lease(backend)) == ["good"]
    assert backend.purge("default", JobState.DEAD, 10) == 1
    assert "1 jobs cannot be read" in caplog.text


@pytest.mark.parametrize("column", ["metadata", "errors", "type", "lease_owner"])
@pytest.mark.parametrize("wrap", [alchemy, sqlite3.connect])
def test_a_repeat_of_a_job_with_text_that_is_no_utf8_is_recognised_on_any_connection(backend, path, column, wrap):
    new = NewJob(type="t", id="bad", metadata={"a": "b"})
    backend.enqueue([new])
    no_utf8(path, column)
    with closing(wrap(path)) as connection:
        (found,) = backend.enqueue_with(connection, [new])
    assert found.job.id == "bad"


@pytest.mark.parametrize("token", ["", "!", "0garbage", "z" * 300])
def test_a_list_of_leased_jobs_is_walked_past_a_token_that_is_none(backend, path, spoil, token):
    add(backend, "a", "bad", "c")
    lease(backend)
    spoil(lease_token=token)
    found, cursor = [], None
    while not found or (cursor is not None and len(found) < 9):
        page = backend.list("default", JobState.LEASED, cursor=cursor, limit=1)
        found += [one.id for one in page.jobs]
        cursor = page.cursor
    assert sorted(found) == ["a", "bad", "c"]


def test_an_error_about_text_quotes_none(path):
    """A call that reads no text of jobs, as far as anybody knows."""
    with closing(SqliteBackend(path)) as backend:
        add(backend, "bad")
        no_utf8(path)
        with pytest.raises(BackendError) as failure, backend._store.file.reading() as connection:
            connection.execute("SELECT id FROM scheduler_job").fetchall()
        shown = "".join(traceback.format_exception(failure.value))
        assert "UTF-8" in str(failure.value)
        assert "xff" not in shown
