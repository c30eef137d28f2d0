"""The server's sessions: how they are set up, which are not used again, and what their failures say."""

from __future__ import annotations

import logging
import os
import resource
import sys
import threading
import traceback
import uuid
from contextlib import suppress
from urllib.parse import urlencode

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql

from scheduler.errors import BackendError, BackendUnavailable, ConfigError, WorkerCrashed
from scheduler.identity import new_token
from scheduler.jobs import NewJob
from scheduler.plugins import backend_from_url
from scheduler.states import JobState
from scheduler.worker import Worker
from scheduler_backends.postgres import PostgresBackend
from servers import databases

QUEUE = "größe"
SECRETS = ("PAYL" + "0AD", "M3TA" + "DATA")


def new_job(**fields: object) -> NewJob:
    return NewJob(type="mail", queue=QUEUE, **fields)  # type: ignore[arg-type]  # fields by name


def setting(backend: PostgresBackend, name: str) -> str:
    ((found,),) = backend._store.database.run("SELECT current_setting(%(name)s)", {"name": name})
    return found


@pytest.fixture
def database(postgres_url):
    """The URL of a database of this test's own, whose settings it may change."""
    name = f"sessions_{uuid.uuid4().hex[:12]}"
    yield databases.create(postgres_url, name)
    databases.drop(postgres_url, name)


def change(database: str, clause: str) -> None:
    """ALTER DATABASE … *clause*: sessions that are open keep what they have."""
    with psycopg.connect(database, autocommit=True) as direct:
        name = sql.Identifier(direct.info.dbname)
        direct.execute("SET default_transaction_read_only = off")
        direct.execute(sql.SQL("ALTER DATABASE {} " + clause).format(name))


# ---- connections that are not used again


def test_a_producer_works_again_as_soon_as_the_database_takes_writes(database, new_backend):
    """Each failing call replaces all connections that were opened until then, however many the pool holds."""
    new_backend(database).migrate()
    change(database, "SET default_transaction_read_only = on")
    backend = new_backend(database, pool_size=4)
    together = threading.Barrier(4)

    def read() -> None:
        with backend._store.database.connection():
            together.wait(30)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with pytest.raises(BackendUnavailable, match="takes no writes"):
        backend.enqueue([new_job()])
    change(database, "RESET default_transaction_read_only")
    (answer,) = backend.enqueue([new_job()])
    assert answer.is_new
    assert len(backend.lease([QUEUE], token=new_token(), worker_id="w", duration=60.0, limit=4)) == 1


def test_a_connection_with_a_role_that_may_not_is_not_used_again(database, new_backend):
    """Nor is any other connection whose call failed by itself."""
    new_backend(database).migrate()
    role = f"nobody_{uuid.uuid4().hex[:8]}"
    backend = new_backend(database, pool_size=1)
    backend.ping()
    with backend._store.database.connection() as driver:
        driver.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(role)))
        driver.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))
    with pytest.raises(BackendError, match="privilege"):
        backend.enqueue([new_job()])
    (answer,) = backend.enqueue([new_job()])
    assert answer.is_new
    with psycopg.connect(database) as direct:
        direct.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


# ---- how they are set up


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_text_goes_as_utf_8_whatever_the_client_encoding_is_set_to(database, new_backend, encoding, monkeypatch):
    new_backend(database).migrate()
    change(database, f"SET client_encoding = '{encoding}'")
    monkeypatch.setenv("PGCLIENTENCODING", encoding)
    backend = new_backend(database)
    waiter = backend.waiter([QUEUE])
    assert waiter.wait(10.0)
    while waiter.wait(0.05):
        pass
    job = new_job(metadata={"ä": "日本"})
    backend.enqueue([job])
    assert waiter.wait(10.0)
    assert backend.get(QUEUE, [job.id])[job.id].metadata == {"ä": "日本"}


def test_an_engine_whose_text_is_no_utf_8_is_refused(database, new_backend):
    new_backend(database).migrate()
    url = sa.make_url(database).set(drivername="postgresql+psycopg")
    engine = sa.create_engine(url, connect_args={"client_encoding": "latin1"})
    with pytest.raises(BackendError, match="client_encoding"):
        new_backend(engine).enqueue([new_job()])
    engine.dispose()


def test_a_statement_ends_on_the_server_too(new_backend):
    backend = new_backend(timeout=0.5)
    backend.ping()
    with pytest.raises(BackendUnavailable, match="in time"):
        backend._store.database.run("SELECT pg_sleep(60)", {})
    assert backend._store.database.run(
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(60)%%' AND state = 'active'", {}
    ) == [(0,)]
    assert setting(backend, "statement_timeout") == "500ms"


def test_a_shorter_time_out_of_the_database_stays_and_no_caller_s_connection_gets_one(database, new_backend):
    change(database, "SET statement_timeout = '7s'")
    assert setting(new_backend(database), "statement_timeout") == "7s"
    change(database, "SET statement_timeout = '70s'")
    backend = new_backend(database)
    assert setting(backend, "statement_timeout") == "10s"
    with psycopg.connect(database) as connection:
        backend.enqueue_with(connection, [new_job()])
        assert connection.execute("SHOW statement_timeout").fetchone() == ("70s",)
    engine = sa.create_engine(sa.make_url(database).set(drivername="postgresql+psycopg"))
    assert setting(new_backend(engine), "statement_timeout") == "70s"
    engine.dispose()


def test_the_environment_s_options_hold(new_backend, monkeypatch):
    monkeypatch.setenv("PGOPTIONS", "-c work_mem=7MB -c default_transaction_isolation=serializable")
    backend = new_backend()
    assert setting(backend, "work_mem") == "7MB"
    assert setting(backend, "default_transaction_isolation") == "read committed"


def test_functions_of_the_same_names_elsewhere_on_the_search_path_change_nothing(database, new_backend):
    backend = new_backend(database)
    backend.migrate()
    with psycopg.connect(database) as direct:
        direct.execute("CREATE SCHEMA odd")
        for arguments, answer, body in [
            ("pg_notify(text, text)", "void", ""),
            ("now()", "timestamptz", "SELECT '1990-01-01'::timestamptz"),
            ("statement_timestamp()", "timestamptz", "SELECT '1990-01-01'::timestamptz"),
            ("string_to_array(text, text)", "text[]", "SELECT NULL::text[]"),
            ("jsonb_array_length(jsonb)", "int", "SELECT 99"),
        ]:
            direct.execute(f"CREATE FUNCTION odd.{arguments} RETURNS {answer} LANGUAGE sql AS $${body}$$")  # type: ignore[arg-type]  # made here
    change(database, "SET search_path = odd, pg_catalog")
    odd = new_backend(database)
    waiter = odd.waiter([QUEUE])
    assert waiter.wait(10.0)
    while waiter.wait(0.05):
        pass
    odd.enqueue([new_job()])
    assert waiter.wait(10.0)
    (held,) = odd.lease([QUEUE], token=new_token(), worker_id="w", duration=60.0, limit=4)
    assert not odd.renew([held], 60.0).refused
    assert list(odd.release([held])) == []


# ---- URLs


def test_options_of_a_url_hold_whichever_way_it_comes_in(postgres_url, schema):
    url = f"{postgres_url}?migrate=true&schema={schema}&retain_succeeded=60"
    for made in (PostgresBackend(url), backend_from_url(url)):
        assert made.retention.succeeded == 60.0
        made.enqueue([new_job()])
        with psycopg.connect(postgres_url) as connection:
            made.enqueue_with(connection, [new_job()])
        made.close()
    for refused, field in [("nonsense=1", "nonsense"), ("migrate=perhaps", "migrate"), ("port=abc", "port")]:
        for make in (PostgresBackend, backend_from_url):
            with pytest.raises(ConfigError) as caught:
                make(f"{postgres_url}?{refused}")
            assert caught.value.field == field
    with pytest.raises(ConfigError, match="twice") as caught:
        PostgresBackend(url, schema="other")
    assert caught.value.field == "schema"


def test_a_list_of_hosts_is_tried_in_order(postgres_url, schema):
    parts = sa.make_url(postgres_url)
    user = f"{parts.username}@" if parts.password is None else f"{parts.username}:{parts.password}@"
    url = f"postgresql://{user}127.0.0.1:1,[::1]:1,{parts.host}:{parts.port}/{parts.database}?schema={schema}&migrate=true"
    backend = PostgresBackend(url)
    backend.enqueue([new_job()])
    backend.close()
    nowhere = PostgresBackend("postgresql://127.0.0.1:1,127.0.0.1:2/db")
    with pytest.raises(BackendUnavailable):
        nowhere.ping()
    nowhere.close()


@pytest.mark.parametrize("url", ["postgresql://u:s3cret@h:abc/db", "postgresql://h/d\udc80b", "mysql://h/db"])
def test_a_url_that_cannot_be_read_is_refused_without_showing_it(url):
    with pytest.raises(ConfigError) as caught:
        PostgresBackend(url)
    assert "s3cret" not in str(caught.value)


def test_pgbouncer_without_a_way_to_listen_is_told_of(new_backend, caplog):
    backend = new_backend(pgbouncer=True)
    with caplog.at_level(logging.WARNING):
        backend.waiter([QUEUE]).close()
    assert "listen_url" in caplog.text


# ---- what failures say


@pytest.fixture
def login(postgres_url):
    """A role with a password, on a server that asks for one: the rules of the tests' own server trust everybody."""
    role = f"login_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgres_url, autocommit=True) as direct:
        direct.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(role)))
    yield sa.make_url(postgres_url).set(username=role).render_as_string(hide_password=False)
    with psycopg.connect(postgres_url, autocommit=True) as direct:
        direct.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


def test_a_refused_login_will_not_pass(login, postgres_url):
    """No outage: nobody need wait for it."""
    missing = sa.make_url(postgres_url).set(database="missing").render_as_string(hide_password=False)
    unknown = sa.make_url(postgres_url).set(username="unknown").render_as_string(hide_password=False)
    for url in (login, missing, unknown, f"{postgres_url}?sslmode=require"):
        backend = PostgresBackend(url)
        with pytest.raises(BackendError) as caught:
            backend.ping()
        assert type(caught.value) is BackendError, url
        assert "login" in str(caught.value)
        backend.close()


@pytest.mark.parametrize("options", ["-c nonsense=1", "-c statement_timeout=soon", "-c block_size=1", "--nonsense"])
def test_options_that_the_server_refuses_are_not_waited_for(postgres_url, options):
    backend = PostgresBackend(f"{postgres_url}?{urlencode({'options': options})}")
    with pytest.raises(BackendError) as caught:
        backend.ping()
    assert type(caught.value) is BackendError
    backend.close()


@pytest.mark.parametrize("url", ["//h/a%00b", "//a%00b@h/d", "//u:a%00b@h/d", "//h/d?application_name=%00"])
def test_a_url_with_nul_is_refused(url):
    with pytest.raises(ConfigError) as refusal:
        PostgresBackend(f"postgresql:{url}")
    assert "NUL" in str(refusal.value)


def test_a_worker_whose_login_is_refused_ends_at_its_start_and_says_why(login):
    backend = PostgresBackend(login)
    worker = Worker(backend)
    worker.handle("mail", lambda job, ctx: None)
    with pytest.raises(WorkerCrashed) as caught:
        worker.run()
    assert "refuses the login" in str(caught.value.__cause__)
    backend.close()


@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors")
def test_without_a_descriptor_every_call_is_unavailable_and_passes(new_backend):
    backend = new_backend()
    backend.enqueue([new_job()])
    fresh = new_backend()
    fresh.migrate()
    fresh._store.database.engine.dispose()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        calls = [fresh.ping, lambda: fresh.enqueue([new_job()]), lambda: fresh.waiter([QUEUE]), fresh.migrate]
        for call in calls:
            with pytest.raises(BackendUnavailable):
                call()
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    fresh.ping()


def test_whatever_the_driver_raises_is_an_error_of_the_store(new_backend):
    backend = new_backend()
    backend.ping()
    for parameters in ({"x": object()}, {"x": "\udc80"}, {}):
        with pytest.raises(BackendError) as caught:
            backend._store.database.run("SELECT %(x)s", parameters)
        assert caught.value.__cause__ is not None


def test_no_error_shows_a_payload_or_metadata(new_backend, postgres_url, schema, caplog):
    """Neither its text nor the traceback of its causes, on any kind of connection."""
    backend = new_backend()
    backend.migrate()
    with psycopg.connect(postgres_url) as direct:
        direct.execute(f"ALTER TABLE {schema}.job ADD CHECK (type <> 'refused')")
    job = NewJob(type="refused", queue=QUEUE, payload=SECRETS[0].encode(), metadata={"m": SECRETS[1]})
    many = [NewJob(type="refused", payload=SECRETS[0].encode(), metadata={"m": SECRETS[1]}) for _ in range(600)]
    engine = sa.create_engine(sa.make_url(postgres_url).set(drivername="postgresql+psycopg"))
    caplog.set_level(logging.DEBUG)

    def on_driver() -> None:
        with psycopg.connect(postgres_url) as connection:
            backend.enqueue_with(connection, [job])

    def on_sqlalchemy() -> None:
        with engine.connect() as connection:
            backend.enqueue_with(connection, [job])

    def on_a_failed_transaction() -> None:
        with engine.connect() as connection:
            with suppress(sa.exc.DBAPIError):
                connection.execute(sa.text("SELECT 1/0"))
            backend.enqueue_with(connection, [job])

    calls = [lambda: backend.enqueue([job]), lambda: backend.enqueue([job, job]), lambda: backend.enqueue(many)]
    for call in [*calls, on_driver, on_sqlalchemy, on_a_failed_transaction]:
        with pytest.raises(BackendError) as caught:
            call()
        told = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + repr(caught.value.__cause__)
        told += "".join(traceback.format_exception(caught.value.__cause__)) + caplog.text
        assert not any(secret in told for secret in SECRETS), told
        assert caught.value.__context__ is None or caught.value.__suppress_context__
    engine.dispose()
    assert backend.stats([QUEUE])[0].counts[JobState.READY] == 0
