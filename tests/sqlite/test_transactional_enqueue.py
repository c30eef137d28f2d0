"""Enqueue inside the caller's own transaction on the file."""

from __future__ import annotations

import sqlite3
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress

import django
import pytest
import sqlalchemy as sa
from django.conf import settings
from django.db import transaction as django_transaction
from django.db.utils import ConnectionHandler
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from broken_connections import BROKEN, PAYLOAD
from scheduler.errors import BackendError, ConfigError, SchemaMismatch
from scheduler.jobs import NewJob
from scheduler_backends.sql.columns import STORED
from scheduler_backends.sqlite import SqliteBackend, enqueue

Transaction = Callable[[], AbstractContextManager[object]]


def new_job(**fields: object) -> NewJob:
    return NewJob(type="mail", queue="shop", **fields)  # type: ignore[arg-type]  # fields by name


class Undo(Exception):  # noqa: N818 - no error
    """Leaves a transaction by rolling it back."""


def undone() -> AbstractContextManager[None]:
    return suppress(Undo)


@pytest.fixture
def engine(path) -> Iterator[sa.Engine]:
    engine = sa.create_engine(f"sqlite:///{path}")
    yield engine
    engine.dispose()


@contextmanager
def legacy_sqlite3(path, engine):
    connection = sqlite3.connect(path)
    connection.row_factory = sqlite3.Row
    try:
        with connection:
            yield connection
    finally:
        connection.close()


@contextmanager
def explicit_sqlite3(path, engine):
    connection = sqlite3.connect(path, isolation_level=None)
    connection.row_factory = lambda cursor, row: {"of": "the caller"}
    try:
        connection.execute("BEGIN")
        try:
            yield connection
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
    finally:
        connection.close()


@contextmanager
def bytes_sqlite3(path, engine):
    connection = sqlite3.connect(path)
    connection.text_factory = bytes
    try:
        with connection:
            yield connection
        assert connection.text_factory is bytes
    finally:
        connection.close()


@contextmanager
def sqlalchemy_connection(path, engine):
    with engine.begin() as connection:
        yield connection


@contextmanager
def sqlalchemy_session(path, engine):
    with Session(engine) as session, session.begin():
        yield session


@contextmanager
def sqlalchemy_scoped_session(path, engine):
    session = scoped_session(sessionmaker(engine))
    try:
        yield session
        session.commit()
    finally:
        session.remove()


@contextmanager
def django_connection(path, engine):
    if not settings.configured:
        settings.configure()
        django.setup()
    handler = ConnectionHandler({"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": str(path)}})
    connection = handler["default"]
    atomic = django_transaction.Atomic("default", savepoint=True, durable=False)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(django_transaction, "connections", handler)
            with atomic:
                yield connection
    finally:
        connection.close()


KINDS = [
    legacy_sqlite3,
    explicit_sqlite3,
    bytes_sqlite3,
    sqlalchemy_connection,
    sqlalchemy_session,
    sqlalchemy_scoped_session,
    django_connection,
]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def transaction(request, path, backend, engine) -> Transaction:
    backend.migrate()
    return lambda: request.param(path, engine)


def test_a_commit_stores_the_job(backend, transaction):
    job = new_job(payload=b"\0\xff", metadata={"ä": "日本"})
    with transaction() as connection:
        (answer,) = backend.enqueue_with(connection, [job])
        assert answer.is_new
        assert backend.get("shop", [job.id]) == {}, "seen by others before the commit"
    assert backend.get("shop", [job.id]) == {job.id: answer.job}


def test_a_rollback_leaves_no_job(backend, transaction):
    job = new_job()
    with undone(), transaction() as connection:
        backend.enqueue_with(connection, [job])
        raise Undo
    assert backend.get("shop", [job.id]) == {}


def test_a_job_that_is_kept_is_answered(backend, transaction):
    kept, other = new_job(id="order-1"), new_job(id="order-1", payload=b"other")
    backend.enqueue([kept])
    with transaction() as connection:
        repeated, refused = backend.enqueue_with(connection, [kept, other])
    assert (repeated.is_new, refused.is_new) == (True, False)
    assert refused.job.payload == b""


@contextmanager
def savepoint(connection):
    """Whatever the connection is of: one of sqlite3 is told by SQL."""
    if hasattr(connection, "begin_nested"):
        with connection.begin_nested():
            yield
    elif hasattr(connection, "vendor"):
        with django_transaction.Atomic("default", savepoint=True, durable=False):
            yield
    else:
        connection.execute("SAVEPOINT inner_part")
        try:
            yield
        except BaseException:
            connection.execute("ROLLBACK TO inner_part")
            raise
        connection.execute("RELEASE inner_part")


def test_a_rollback_to_a_savepoint_leaves_no_job_and_wakes_nobody(backend, path, transaction):
    other = SqliteBackend(path)
    waiter = other.waiter(["undone"])
    try:
        with transaction() as connection:
            (before,) = backend.enqueue_with(connection, [new_job()])
            with undone(), savepoint(connection):
                backend.enqueue_with(connection, [new_job(), NewJob(type="mail", queue="undone")])
                raise Undo
            with savepoint(connection):
                (after,) = backend.enqueue_with(connection, [new_job()])
        assert not waiter.wait(0.1)
    finally:
        waiter.close()
        other.close()
    assert sum(backend.stats(["undone"])[0].counts.values()) == 0
    (row,) = backend.stats(["shop"])
    assert sum(row.counts.values()) == 2
    assert set(backend.get("shop", [before.job.id, after.job.id])) == {before.job.id, after.job.id}


def test_values_that_sqlite_cannot_take_are_errors_of_ours(backend, path, monkeypatch):
    backend.migrate()
    too_large = {"priority": 2**70}
    monkeypatch.setattr(enqueue, "values_of", lambda job: [too_large.get(name, getattr(job, name)) for name in STORED])
    with closing(sqlite3.connect(path)) as connection, pytest.raises(BackendError):
        backend.enqueue_with(connection, [new_job()])


def test_the_worker_is_woken_by_the_commit_alone(backend, path, transaction):
    other = SqliteBackend(path)  # as another process would have it
    waiter = other.waiter(["shop"])
    try:
        with undone(), transaction() as connection:
            backend.enqueue_with(connection, [new_job()])
            raise Undo
        backend.enqueue([NewJob(type="mail", queue="elsewhere")])  # changes the file, but nothing that is waited for
        assert not waiter.wait(0.1)
        with transaction() as connection:
            backend.enqueue_with(connection, [new_job()])
            assert not waiter.wait(0.1)
        assert waiter.wait(10.0)
    finally:
        waiter.close()
        other.close()


def test_a_connection_to_another_file_is_refused(backend, tmp_path):
    backend.migrate()
    with sqlite3.connect(tmp_path / "other.db") as connection, pytest.raises(ConfigError, match=r"other\.db") as caught:
        backend.enqueue_with(connection, [new_job()])
    connection.close()
    assert caught.value.field == "connection"


def test_a_connection_of_another_kind_is_refused(backend):
    backend.migrate()
    for nonsense in (None, "sqlite:///jobs.db", object(), sa.create_engine("sqlite://")):
        with pytest.raises(ConfigError) as caught:
            backend.enqueue_with(nonsense, [new_job()])
        assert caught.value.field == "connection"


def test_a_file_without_the_schema_gets_it_in_the_same_transaction(backend, path, engine):
    with undone(), explicit_sqlite3(path, engine) as connection:
        backend.enqueue_with(connection, [new_job()])
        raise Undo
    with explicit_sqlite3(path, engine) as connection:
        (answer,) = backend.enqueue_with(connection, [new_job()])
    assert backend.get("shop", [answer.job.id]) == {answer.job.id: answer.job}


def test_a_file_without_the_schema_is_refused_where_nothing_may_migrate(path, engine):
    backend = SqliteBackend(path, migrate=False)
    with pytest.raises(SchemaMismatch, match="migrate"), explicit_sqlite3(path, engine) as connection:
        backend.enqueue_with(connection, [new_job()])
    backend.close()


@pytest.mark.parametrize(("connection", "expected"), BROKEN.items(), ids=lambda value: value.__name__)
def test_a_connection_that_cannot_be_used_is_an_error_of_ours(backend, engine, connection, expected):
    backend.migrate()
    away = sa.make_url("sqlite:////nowhere/jobs.db")
    with ExitStack() as stack, pytest.raises(expected) as caught:
        backend.enqueue_with(connection(engine, away, stack), [new_job(payload=PAYLOAD)])
    assert getattr(caught.value, "field", "connection") == "connection"
    assert PAYLOAD.decode() not in "".join(traceback.format_exception(caught.value))
    assert not any(backend.stats(["shop"])[0].counts.values())
