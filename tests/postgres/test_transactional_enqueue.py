"""Enqueue inside the caller's own transaction."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import django
import psycopg
import pytest
import sqlalchemy as sa
from django.conf import settings
from django.db import transaction as django_transaction
from django.db.utils import ConnectionHandler
from sqlalchemy.orm import Session

from broken_connections import BROKEN, PAYLOAD
from scheduler.errors import BackendError, BackendUnavailable, ConfigError, SchemaMismatch
from scheduler.jobs import NewJob
from scheduler.producer import Producer

Transaction = Callable[[], AbstractContextManager[tuple[Any, Callable[[], AbstractContextManager[object]]]]]


class Undo(Exception):  # noqa: N818 - no error
    """Leaves a transaction or a savepoint by rolling it back."""


def undone() -> AbstractContextManager[None]:
    return suppress(Undo)


def new_job(**fields: object) -> NewJob:
    return NewJob(type="mail", queue="shop", **fields)  # type: ignore[arg-type]  # fields by name


# Each returns the connection, and what makes a savepoint on it.


@contextmanager
def psycopg_connection(url, engine):
    with psycopg.connect(url, row_factory=psycopg.rows.dict_row) as connection:
        yield connection, connection.transaction


@contextmanager
def sqlalchemy_connection(url, engine):
    with engine.begin() as connection:
        yield connection, connection.begin_nested


@contextmanager
def sqlalchemy_session(url, engine):
    with Session(engine) as session, session.begin():
        yield session, session.begin_nested


@contextmanager
def django_connection(url, engine):
    if not settings.configured:
        settings.configure()
        django.setup()
    parts = urlsplit(url)
    database = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.lstrip("/"),
        "USER": parts.username,
        "PASSWORD": parts.password,
        "HOST": parts.hostname,
        "PORT": parts.port,
    }
    handler = ConnectionHandler({"default": database})
    connection = handler["default"]
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(django_transaction, "connections", handler)
            with django_transaction.atomic():
                yield connection, django_transaction.atomic
    finally:
        connection.close()


@contextmanager
def sql_ascii_connection(url, engine):
    """Its driver brings text as bytes."""
    with psycopg.connect(url, client_encoding="sql_ascii") as connection:
        yield connection, connection.transaction


KINDS = [
    psycopg_connection,
    sql_ascii_connection,
    sqlalchemy_connection,
    sqlalchemy_session,
    django_connection,
]


@pytest.fixture
def engine(postgres_url) -> Iterator[sa.Engine]:
    engine = sa.create_engine(sa.make_url(postgres_url).set(drivername="postgresql+psycopg"))
    yield engine
    engine.dispose()


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def transaction(request, postgres_url, backend, engine) -> Transaction:
    backend.migrate()
    return lambda: request.param(postgres_url, engine)


def test_a_commit_stores_the_job(backend, transaction):
    job = new_job(payload=b"\0\xff", metadata={"ä": "日本 %s %(x)s"})
    with transaction() as (connection, _):
        (answer,) = backend.enqueue_with(connection, [job])
        assert answer.is_new
        assert backend.get("shop", [job.id]) == {}, "seen by others before the commit"
    assert backend.get("shop", [job.id]) == {job.id: answer.job}


def test_a_rollback_leaves_no_job_and_wakes_nobody_but_a_commit_wakes_at_once(new_backend, transaction):
    backend, other = new_backend(), new_backend()  # the other as in another process
    waiter = other.waiter(["shop"])
    assert waiter.wait(10.0), "the first wait connects, and returns for what came before"
    job = new_job()
    with undone(), transaction() as (connection, _):
        backend.enqueue_with(connection, [job])
        raise Undo
    assert backend.get("shop", [job.id]) == {}
    with transaction() as (connection, _):
        backend.enqueue_with(connection, [new_job()])
        assert not waiter.wait(0.2)
    assert waiter.wait(10.0)


def test_a_rollback_to_a_savepoint_leaves_no_job_and_wakes_nobody(new_backend, transaction):
    backend = new_backend()
    waiter = new_backend().waiter(["shop"])
    assert waiter.wait(10.0)
    gone, kept = new_job(), NewJob(type="mail", queue="elsewhere")
    with transaction() as (connection, savepoint):
        with undone(), savepoint():
            backend.enqueue_with(connection, [gone])
            raise Undo
        with savepoint():
            backend.enqueue_with(connection, [kept])
    assert backend.get("shop", [gone.id]) == {}
    assert set(backend.get("elsewhere", [kept.id])) == {kept.id}
    assert not waiter.wait(0.2)


def test_a_job_that_is_kept_is_answered(backend, transaction):
    kept, other = new_job(id="order-1"), new_job(id="order-1", payload=b"other")
    backend.enqueue([kept])
    with transaction() as (connection, _):
        repeated, refused = backend.enqueue_with(connection, [kept, other])
    assert (repeated.is_new, refused.is_new) == (True, False)
    assert refused.job.payload == b""
    assert type(refused.job.payload) is bytes


def test_several_jobs_keep_their_order_in_the_answer(backend, transaction):
    jobs = [new_job(payload=bytes([n])) for n in range(20)]
    with transaction() as (connection, _):
        answers = backend.enqueue_with(connection, jobs)
    assert [answer.job.payload for answer in answers] == [job.payload for job in jobs]


def test_the_producer_hands_the_connection_on(backend, transaction):
    with transaction() as (connection, _):
        answer = Producer(backend).enqueue("mail", {"to": "you"}, queue="shop", connection=connection)
    assert set(backend.get("shop", [answer.job.id])) == {answer.job.id}


def test_two_transactions_with_one_id_wait_for_each_other_and_store_it_once(backend, postgres_url):
    backend.migrate()
    job = new_job(id="order-1")
    with psycopg.connect(postgres_url) as first:
        backend.enqueue_with(first, [job])
        with psycopg.connect(postgres_url) as second:
            second.execute("SET lock_timeout = '50ms'")
            with pytest.raises(BackendUnavailable):  # not stored, and not called stored either
                backend.enqueue_with(second, [new_job(id="order-1")])
    (answer,) = backend.enqueue([new_job(id="order-1")])
    assert not answer.is_new


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_database_without_the_schema_says_what_to_run_and_the_transaction_goes_on(
    new_backend, kind, postgres_url, engine
):
    backend = new_backend(migrate=False)
    with kind(postgres_url, engine) as (connection, _):
        with pytest.raises(SchemaMismatch, match="run `python -m"):
            backend.enqueue_with(connection, [new_job()])
        backend.migrate()
        (answer,) = backend.enqueue_with(connection, [new_job()])
    assert set(backend.get("shop", [answer.job.id])) == {answer.job.id}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_database_without_the_schema_gets_it_when_told_to(new_backend, kind, postgres_url, engine):
    backend = new_backend(migrate=True)
    with kind(postgres_url, engine) as (connection, _):
        (answer,) = backend.enqueue_with(connection, [new_job()])
    assert set(backend.get("shop", [answer.job.id])) == {answer.job.id}


def test_a_newer_schema_is_left_alone(new_backend, postgres_url, schema):
    new_backend().migrate()
    with psycopg.connect(postgres_url) as connection:
        connection.execute(f"INSERT INTO {schema}.schema_version VALUES (99, 0)")
        with pytest.raises(SchemaMismatch, match="99"):
            new_backend().enqueue_with(connection, [new_job()])
        assert connection.execute(f"SELECT count(*) FROM {schema}.job").fetchone() == (0,)


def test_it_takes_no_connection_from_a_pool_that_the_caller_has_emptied(new_backend, postgres_url):
    new_backend().migrate()
    engine = sa.create_engine(
        sa.make_url(postgres_url).set(drivername="postgresql+psycopg"), pool_size=1, max_overflow=0, pool_timeout=0.1
    )
    backend = new_backend(engine, migrate=False)
    with engine.begin() as connection:
        (answer,) = backend.enqueue_with(connection, [new_job()])
    assert set(backend.get("shop", [answer.job.id])) == {answer.job.id}
    engine.dispose()


def test_a_connection_in_autocommit_mode_stores_at_once(backend, postgres_url):
    backend.migrate()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        (answer,) = backend.enqueue_with(connection, [new_job()])
        assert set(backend.get("shop", [answer.job.id])) == {answer.job.id}


def test_a_failed_transaction_says_so(backend, postgres_url):
    backend.migrate()
    with psycopg.connect(postgres_url) as connection:
        with pytest.raises(psycopg.Error):
            connection.execute("SELECT nonsense")
        with pytest.raises(BackendError):
            backend.enqueue_with(connection, [new_job()])


def test_a_connection_of_another_kind_is_refused(backend):
    backend.migrate()
    lite = sa.create_engine("sqlite://")
    with lite.connect() as connection:
        for nonsense in (None, "postgresql://", object(), lite, connection):
            with pytest.raises(ConfigError) as caught:
                backend.enqueue_with(nonsense, [new_job()])
            assert caught.value.field == "connection"
    lite.dispose()


def test_a_delay_counts_from_the_statement_not_from_the_start_of_the_transaction(backend, postgres_url):
    backend.migrate()
    with psycopg.connect(postgres_url) as connection:
        (started,) = connection.execute("SELECT now() FROM pg_sleep(0.2)").fetchone()
        due_now, later = backend.enqueue_with(connection, [new_job(), new_job(delay=10.0)])
    assert (due_now.job.created_at - started).total_seconds() >= 0.2
    assert (later.job.due_at - started).total_seconds() >= 10.2


@pytest.mark.parametrize(("connection", "expected"), BROKEN.items(), ids=lambda value: value.__name__)
def test_a_connection_that_cannot_be_used_is_an_error_of_ours(backend, engine, connection, expected):
    backend.migrate()
    away = sa.make_url("postgresql+psycopg://nobody@127.0.0.1:1/nothing")
    with ExitStack() as stack, pytest.raises(expected) as caught:
        backend.enqueue_with(connection(engine, away, stack), [new_job(payload=PAYLOAD)])
    assert getattr(caught.value, "field", "connection") == "connection"
    assert PAYLOAD.decode() not in "".join(traceback.format_exception(caught.value))
    assert not any(backend.stats(["shop"])[0].counts.values())
