"""The schema: made once however many make it, checked before use, and the same as the tables of `sql.tables`."""

from __future__ import annotations

import dataclasses
import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import psycopg
import pytest
import sqlalchemy as sa

from scheduler.errors import BackendError, ConfigError, SchemaMismatch
from scheduler.identity import new_token
from scheduler.jobs import ErrorDetail, NewJob
from scheduler.leases import Failure
from scheduler.states import JobState
from scheduler_backends.postgres import PostgresBackend
from scheduler_backends.postgres import schema as schema_module
from scheduler_backends.postgres.notifier import channel_of
from scheduler_backends.sql.__main__ import main
from scheduler_backends.sql.tables import tables

pytestmark = pytest.mark.every_flavour


def migrate(url: str, schema: str, gate: object, steps: object) -> None:
    backend = PostgresBackend(url, schema=schema)
    gate.wait(30)  # type: ignore[attr-defined]
    try:
        steps.put(backend.migrate())  # type: ignore[attr-defined]
    except BaseException as error:
        steps.put(repr(error))  # type: ignore[attr-defined]
        raise
    backend.close()


def test_eight_processes_at_once_make_it_once(postgres_url, schema):
    spawn = multiprocessing.get_context("spawn")
    gate, steps = spawn.Barrier(8), spawn.Queue()
    processes = [spawn.Process(target=migrate, args=(postgres_url, schema, gate, steps)) for _ in range(8)]
    for process in processes:
        process.start()
    found = [steps.get(timeout=60) for _ in processes]
    for process in processes:
        process.join(30)
    assert sorted(found) == [0] * 7 + [1]
    assert [process.exitcode for process in processes] == [0] * 8


@pytest.mark.parametrize("share", ["nothing", "the backend", "the schema"])
def test_threads_that_use_an_empty_database_at_once_make_it_once(new_backend, share):
    """Each with a backend of its own, all with one, or with tables of their own that are the first in the schema."""
    prefixes = [f"p{number}_" if share == "the schema" else "" for number in range(8)]
    backends = [new_backend(prefix=prefix) for prefix in prefixes] if share != "the backend" else [new_backend()] * 8
    gate = threading.Barrier(8)

    def enqueue(backend: PostgresBackend) -> str:
        gate.wait(30)
        (answer,) = backend.enqueue([NewJob(type="mail")])
        return answer.job.id

    with ThreadPoolExecutor(8) as threads:
        ids = list(threads.map(enqueue, backends))
    for backend, one in zip(backends, ids, strict=True):
        assert set(backend.get("default", [one])) == {one}
        assert backend.schema_version() == 1


def test_it_may_be_done_again(backend):
    assert backend.migrate() == 1
    assert backend.migrate() == 0
    assert backend.schema_version() == 1


def test_a_backend_that_must_not_migrate_says_what_to_run(new_backend, postgres_url, schema):
    backend = new_backend(migrate=False)
    for call in (backend.ping, lambda: backend.enqueue([NewJob(type="mail")]), lambda: backend.promote_due(["q"], 1)):
        with pytest.raises(SchemaMismatch, match="run `python -m"):
            call()
    with psycopg.connect(postgres_url) as direct:
        assert direct.execute("SELECT to_regnamespace(%s)", [schema]).fetchone() == (None,), "touched the database"
    backend.migrate()
    backend.ping()  # the very same object


def test_a_newer_schema_is_left_alone(new_backend, postgres_url, schema):
    new_backend().migrate()
    with psycopg.connect(postgres_url) as direct:
        direct.execute(f"INSERT INTO {schema}.schema_version VALUES (99, 0)")
    for backend in (new_backend(), new_backend(migrate=False)):
        with pytest.raises(SchemaMismatch, match="99"):
            backend.enqueue([NewJob(type="mail")])
    with pytest.raises(SchemaMismatch, match="99"):
        backend.migrate()


def test_an_older_schema_is_brought_up_to_date_with_its_jobs(new_backend, monkeypatch):
    (answer,) = new_backend().enqueue([NewJob(type="mail")])
    step = ("ALTER TABLE {s}{p}job ADD COLUMN remark text", "CREATE INDEX {p}job_remark ON {s}{p}job (remark)")
    monkeypatch.setattr(schema_module.DIALECT, "steps", (*schema_module.DIALECT.steps, step))  # the next release
    careful = new_backend(migrate=False)
    for call in (careful.ping, careful.check_schema):
        with pytest.raises(SchemaMismatch, match="version 1, and this release needs 2"):
            call()
    assert careful.migration_sql(1).count("job_remark") == 1
    assert "CREATE SCHEMA" not in careful.migration_sql(1)
    backend = new_backend(migrate=True)
    assert set(backend.get("default", [answer.job.id])) == {answer.job.id}
    assert backend.schema_version() == 2
    assert backend.migrate() == 0
    careful.ping()


def test_the_sql_makes_the_same_schema(new_backend, postgres_url, schema):
    backend = new_backend()
    text = backend.migration_sql()
    with psycopg.connect(postgres_url, autocommit=True) as direct:
        direct.execute(text)
    assert backend.migrate() == 0
    backend.enqueue([NewJob(type="mail")])
    assert "CREATE" not in backend.migration_sql(1)
    for wrong in ((2, None), (-1, None), (1, 0)):
        with pytest.raises(ConfigError):
            backend.migration_sql(*wrong)


def test_the_tables_are_as_sqlalchemy_is_told(backend, schema):
    backend.migrate()
    engine = backend._store.database.engine
    told = tables(schema=schema, prefix="")
    for table in [getattr(told, field.name) for field in dataclasses.fields(told)]:
        columns = {column["name"]: column for column in sa.inspect(engine).get_columns(table.name, schema=schema)}
        assert set(columns) == set(table.columns.keys())
        for column in table.columns:
            found = columns[column.name]
            wanted = column.type.compile(engine.dialect)
            assert found["type"].compile(engine.dialect).split(" COLLATE")[0] == wanted, column
            assert found["nullable"] == bool(column.nullable), column
        key = sa.inspect(engine).get_pk_constraint(table.name, schema=schema)["constrained_columns"]
        assert key == [column.name for column in table.primary_key]


def test_two_prefixes_in_one_schema_keep_apart(new_backend):
    first, second = new_backend(prefix="a_"), new_backend(prefix="b_")
    first.enqueue([NewJob(type="mail", id="1")])
    assert second.get("default", ["1"]) == {}
    (answer,) = second.enqueue([NewJob(type="mail", id="1")])
    assert answer.is_new


@pytest.mark.parametrize("name", ["order", "user", "s" * 40, "_"])
@pytest.mark.parametrize("prefix", ["", "p" * 40, "order"])
def test_every_name_that_is_allowed_works(new_backend, postgres_url, name, prefix):
    """Also words of SQL, and names so long that the channel's would be longer than the server takes."""
    backend = new_backend(schema=name, prefix=prefix)
    waiter = new_backend(schema=name, prefix=prefix).waiter(["default"])
    try:
        assert waiter.wait(10.0)
        while waiter.wait(0.1):
            pass
        (answer,) = backend.enqueue([NewJob(type="mail")])
        assert waiter.wait(10.0)
        backend.enqueue([NewJob(type="mail") for _ in range(600)])  # by COPY
        with psycopg.connect(postgres_url) as direct:
            backend.enqueue_with(direct, [NewJob(type="mail")])
        assert backend.stats()[0].counts[JobState.READY] == 602
        assert set(backend.get("default", [answer.job.id])) == {answer.job.id}
        assert backend.migrate() == 0
    finally:
        waiter.close()
        with psycopg.connect(postgres_url) as direct:
            direct.execute(f'DROP SCHEMA "{name}" CASCADE')


def test_names_too_long_for_a_channel_share_none():
    channels = {channel_of("s" * 40, prefix) for prefix in ("", "p" * 39 + "a", "p" * 39 + "b")}
    assert len(channels) == 3
    assert max(map(len, channels)) <= 63


def test_a_role_that_may_only_use_the_tables_can_work(new_backend, postgres_url, schema):
    owner = new_backend()
    owner.migrate()
    role = f"worker_of_{schema}"
    with psycopg.connect(postgres_url, autocommit=True) as direct:
        direct.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{role}'")
        direct.execute(f"GRANT USAGE ON SCHEMA {schema} TO {role}")
        direct.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}")
        url = sa.make_url(postgres_url).set(username=role, password=role).render_as_string(hide_password=False)
        backend = new_backend(url, migrate=False)
        try:
            (answer,) = backend.enqueue([NewJob(type="mail")])
            assert set(backend.get("default", [answer.job.id])) == {answer.job.id}
            with pytest.raises(BackendError, match="privilege"):
                new_backend(url, schema="another").migrate()
        finally:
            backend.close()
            direct.execute(f"DROP OWNED BY {role}")
            direct.execute(f"DROP ROLE {role}")


def test_a_database_of_another_encoding_is_refused(new_backend, postgres_url):
    with psycopg.connect(postgres_url, autocommit=True) as direct:
        direct.execute("CREATE DATABASE latin1 ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
        try:
            url = sa.make_url(postgres_url).set(database="latin1").render_as_string(hide_password=False)
            backend = new_backend(url)
            with pytest.raises(SchemaMismatch, match="UTF8"):
                backend.ping()
            backend.close()
        finally:
            direct.execute("DROP DATABASE latin1 WITH (FORCE)")


def test_people_can_read_the_jobs(backend, postgres_url, schema):
    backend.enqueue([NewJob(type="mail", id="now"), NewJob(type="mail", id="later", delay=3_600.0)])
    with psycopg.connect(postgres_url) as direct:
        rows = direct.execute(f"SELECT id, state, due_at > now() FROM {schema}.job_status ORDER BY id").fetchall()
    assert rows == [("later", "scheduled", True), ("now", "ready", False)]


def test_people_read_the_words_of_the_api(backend, postgres_url, schema):
    backend.enqueue([NewJob(type="mail", id="1", timeout=7.0, max_retries=3)])
    detail = ErrorDetail(kind="ValueError", message="why")
    for _ in range(2):
        (lease,) = backend.lease(["default"], token=new_token(), worker_id="w", duration=30.0, limit=1)
        backend.retry([Failure(lease=lease, delay=0.0, error=detail)])
    (lease,) = backend.lease(["default"], token=new_token(), worker_id="w", duration=30.0, limit=1)
    job = backend.get("default", ["1"])["1"]
    columns = "timeout, lease_owner, lease_expires_at, errors, last_error"
    with psycopg.connect(postgres_url) as direct:
        (row,) = direct.execute(f"SELECT {columns} FROM {schema}.job_status").fetchall()
        direct.execute(f"""UPDATE {schema}.job SET errors = '[7, {{"at": "x"}}, {{"at": 1e300}}, null]'""")
        (damaged,) = direct.execute(f"SELECT errors FROM {schema}.job_status").fetchone()
    assert row[:3] == (7.0, "w", job.lease_expires_at)
    assert [(error["kind"], error["message"]) for error in row[3]] == [("ValueError", "why")] * 2
    assert [datetime.fromisoformat(error["at"]) for error in row[3]] == [error.at for error in job.errors]
    assert row[4] == row[3][-1]
    assert len(damaged) == 4


def test_the_command(postgres_url, schema, capsys):
    url = f"{postgres_url}?schema={schema}"
    for unsure in (url, f"{url}&migrate=true"):
        assert main(["check", unsure]) == 1
        assert "migrate" in capsys.readouterr().err
    assert main(["sql", url]) == 0
    assert f"CREATE TABLE {schema}.job (" in capsys.readouterr().out
    assert main(["migrate", url]) == 0
    assert "1 step applied" in capsys.readouterr().out
    assert main(["migrate", url]) == 0
    assert "up to date" in capsys.readouterr().out
    assert main(["check", url]) == 0
    assert main(["sql", url, "--from", "7"]) == 1
    assert main(["check", "memory://"]) == 1
