"""The file itself: who may share it, and what happens when it cannot be written."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
import time

import pytest

from scheduler.errors import BackendClosed, BackendError, BackendUnavailable, ConfigError, SchemaMismatch
from scheduler.identity import new_token
from scheduler.jobs import NewJob
from scheduler.leases import Completion, Failure
from scheduler.plugins import backend_from_url
from scheduler.queues import Retention
from scheduler.states import JobState
from scheduler_backends.sql.__main__ import main
from scheduler_backends.sqlite import SqliteBackend
from scheduler_backends.sqlite.slots import Open

QUEUE = "file"


def new_job(**fields: object) -> NewJob:
    return NewJob(type="mail", queue=QUEUE, **fields)  # type: ignore[arg-type]  # fields by name


def writer(backend: SqliteBackend) -> sqlite3.Connection:
    connection = backend._store.file._open.get(Open).writer.connection
    assert connection is not None
    return connection


def lease(backend, limit=10):
    return backend.lease([QUEUE], token=new_token(), worker_id="w", duration=60.0, limit=limit)


def test_jobs_survive_the_program(path):
    first = SqliteBackend(path)
    job = new_job(payload=bytes(range(256)), metadata={"a": "ä"})
    (answer,) = first.enqueue([job])
    first.close()
    second = SqliteBackend(path)
    assert second.get(QUEUE, [job.id]) == {job.id: answer.job}
    second.close()


def test_what_is_left_beside_the_file_after_closing(backend, path):
    waiter = backend.waiter([QUEUE])
    backend.enqueue([new_job()])
    waiter.close()
    backend.close()
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["jobs.db", "jobs.db-lock"]


@pytest.mark.parametrize(
    ("url", "name"),
    [("sqlite:///jobs.db", "jobs.db"), ("sqlite:///a%20%25b.db", "a %b.db"), ("sqlite:///ä.db", "ä.db")],
)
def test_urls(tmp_path, monkeypatch, url, name):
    monkeypatch.chdir(tmp_path)
    backend = backend_from_url(url)
    monkeypatch.chdir("/")
    backend.enqueue([new_job()])
    backend.close()
    assert (tmp_path / name).exists()


def test_an_absolute_url_with_options(tmp_path):
    backend = backend_from_url(
        f"sqlite:///{tmp_path}/jobs.db?retain_succeeded=60&synchronous=normal&timeout=2&prefix=my_&migrate=false"
    )
    assert backend.retention.succeeded == 60.0
    with pytest.raises(SchemaMismatch, match="migrate"):
        backend.ping()
    backend.close()


@pytest.mark.parametrize(
    "wrong",
    [
        "", "sqlite://", "sqlite:///", "sqlite:jobs.db", "sqlite://host/jobs.db", ":memory:", "sqlite:///:memory:",
        "a\0b",
    ],
)  # fmt: skip
def test_a_path_that_cannot_be_is_refused(wrong):
    with pytest.raises(ConfigError):
        SqliteBackend(wrong)


@pytest.mark.parametrize("wrong", [None, 5, 1.5, [], object(), "a\ud800.db"])
def test_what_is_no_path_is_refused(wrong):
    with pytest.raises(ConfigError) as caught:
        SqliteBackend(wrong)
    assert caught.value.field == "path"


def test_a_url_is_one_whichever_door_it_comes_in_by(tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db?retain_succeeded=99&timeout=2"
    for make in (SqliteBackend, SqliteBackend.from_url, backend_from_url):
        backend = make(url)
        assert backend.retention.succeeded == 99.0
        backend.migrate()
        backend.close()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["jobs.db", "jobs.db-lock"]


@pytest.mark.parametrize("make", [SqliteBackend, backend_from_url])
@pytest.mark.parametrize("option", ["colour=red", "timeout=soon", "timeout=1&timeout=2", "synchronous=off", "prefix=A"])
def test_an_option_of_a_url_that_cannot_be_is_refused_by_name(tmp_path, make, option):
    with pytest.raises(ConfigError) as caught:
        make(f"sqlite:///{tmp_path}/jobs.db?{option}")
    assert caught.value.field == option.partition("=")[0]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("option", "arguments"),
    [
        ("timeout=2", {"timeout": 3.0}),
        ("migrate=true", {"migrate": False}),
        ("retain_dead=5", {"retention": Retention(dead=6.0)}),
    ],
)
def test_an_argument_that_differs_from_the_url_is_refused(tmp_path, option, arguments):
    with pytest.raises(ConfigError) as caught:
        SqliteBackend(f"sqlite:///{tmp_path}/jobs.db?{option}", **arguments)
    assert caught.value.field == next(iter(arguments))


@pytest.mark.parametrize(
    "options",
    [
        {"synchronous": "off"},
        {"timeout": 0},
        {"timeout": float("nan")},
        {"prefix": "a-b"},
        {"prefix": ""},
        {"prefix": None},
        {"migrate": "no"},
        {"retention": 3_600},
        {"timeout": "5"},
        {"synchronous": []},
    ],
)
def test_an_argument_that_cannot_be_is_refused(path, options):
    with pytest.raises(ConfigError) as caught:
        SqliteBackend(path, **options)
    assert caught.value.field == next(iter(options))
    assert not path.exists()


def test_a_folder_that_is_not_there_is_a_clear_error(tmp_path):
    backend = SqliteBackend(tmp_path / "nowhere" / "jobs.db")
    for call in (lambda: backend.enqueue([new_job()]), backend.schema_version, backend.migrate):
        with pytest.raises(BackendUnavailable, match="cannot be opened"):
            call()
    (tmp_path / "nowhere").mkdir()
    backend.enqueue([new_job()])
    backend.close()


def test_a_file_of_another_kind_is_a_clear_error_and_left_alone(path):
    path.write_bytes(b"no database at all" * 100)
    backend = SqliteBackend(path)
    with pytest.raises(BackendError, match="not an SQLite database"):
        backend.enqueue([new_job()])
    backend.close()
    assert path.read_bytes() == b"no database at all" * 100


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_that_may_not_be_written_is_a_clear_error(path):
    SqliteBackend(path).migrate()
    path.chmod(stat.S_IRUSR)
    backend = SqliteBackend(path)
    with pytest.raises(BackendError):
        backend.enqueue([new_job()])
    backend.close()


def test_a_connection_that_may_only_read_is_a_clear_error_and_not_used_again(backend):
    backend.enqueue([new_job()])
    writer(backend).execute("PRAGMA query_only = ON")
    with pytest.raises(BackendError, match="read-only"):
        backend.enqueue([new_job()])
    assert backend.stats([QUEUE])[0].counts[JobState.READY] == 1
    backend.enqueue([new_job()])


def test_a_full_disk_stores_nothing_and_passes(backend):
    backend.enqueue([new_job()])
    direct = writer(backend)
    (pages,) = direct.execute("PRAGMA page_count").fetchone()
    direct.execute(f"PRAGMA max_page_count = {pages + 4}")
    jobs = [new_job(payload=b"x" * 4_000) for _ in range(50)]
    with pytest.raises(BackendUnavailable, match="full"):
        backend.enqueue(jobs)
    assert backend.stats([QUEUE])[0].counts[JobState.READY] == 1
    (held,) = lease(backend)  # what needs no room goes on
    assert backend.retry([Failure(lease=held)]) == []
    direct.execute("PRAGMA max_page_count = 1000000")
    assert all(answer.is_new for answer in backend.enqueue(jobs))
    assert direct.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_another_writer_that_does_not_end_is_a_bounded_wait(path):
    """Guarantees 29 and 30, in a file."""
    backend = SqliteBackend(path, timeout=0.2)
    backend.enqueue([new_job()])
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    begun = time.monotonic()
    with pytest.raises(BackendUnavailable, match="locked"):
        backend.enqueue([new_job()])
    assert time.monotonic() - begun < 30.0
    assert len(backend.get(QUEUE, ["x"])) == 0, "readers wait for nobody"
    other.execute("COMMIT")
    other.close()
    backend.enqueue([new_job()])
    backend.close()


def test_a_process_that_sits_in_the_gate_is_a_bounded_wait(path):
    backend, other = SqliteBackend(path, timeout=0.2), SqliteBackend(path)
    backend.enqueue([new_job()])
    with other._store.file.writing(), pytest.raises(BackendUnavailable, match="locked"):
        backend.enqueue([new_job()])
    backend.enqueue([new_job()])
    backend.close()
    other.close()


def test_the_threads_of_a_process_share_it(backend):
    done: list[str] = []

    def run() -> None:
        for _ in range(50):
            backend.enqueue([new_job()])
            held = lease(backend, limit=3)
            refused = backend.complete([Completion(lease=one) for one in held])
            done.extend(one.job.id for one in held if one not in refused)

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    left = backend.stats([QUEUE])[0].counts[JobState.READY]
    assert len(done) == len(set(done))
    assert len(done) + left == 300


def test_a_newer_schema_is_left_alone(backend, path):
    backend.migrate()
    with sqlite3.connect(path) as direct:
        direct.execute("INSERT INTO scheduler_schema_version VALUES (99, 0)")
    direct.close()
    other = SqliteBackend(path)
    with pytest.raises(SchemaMismatch, match="99"):
        other.enqueue([new_job()])
    other.close()


def test_two_prefixes_in_one_file_keep_apart(path):
    first, second = SqliteBackend(path, prefix="a_"), SqliteBackend(path, prefix="b_")
    first.enqueue([new_job(id="1")])
    assert second.get(QUEUE, ["1"]) == {}
    first.close()
    second.close()


def test_the_sql_makes_the_same_schema(path, tmp_path):
    backend = SqliteBackend(path)
    text = backend.migration_sql()
    with sqlite3.connect(tmp_path / "by_hand.db") as direct:
        direct.executescript(text)
    direct.close()
    other = SqliteBackend(tmp_path / "by_hand.db", migrate=False)
    other.enqueue([new_job()])
    assert other.migrate() == 0
    assert "CREATE" not in backend.migration_sql(1)
    backend.close()
    other.close()


def test_the_command(path, capsys):
    url = f"sqlite:///{path}"
    assert main(["check", url]) == 1
    assert "migrate" in capsys.readouterr().err
    assert main(["sql", url]) == 0
    assert "CREATE TABLE scheduler_job (" in capsys.readouterr().out
    assert main(["migrate", url]) == 0
    assert "1 step applied" in capsys.readouterr().out
    assert main(["check", url]) == 0


def test_a_closed_backend_says_so_and_may_be_closed_again(path):
    backend = SqliteBackend(path)
    backend.close()  # before it was ever used
    backend.close()
    for call in (
        backend.ping,
        lambda: backend.enqueue([new_job()]),
        lambda: lease(backend),
        backend.migrate,
        backend.schema_version,
        backend.check_schema,
    ):
        with pytest.raises(BackendClosed):
            call()
    assert not path.exists()


def test_an_old_sqlite_is_refused(path, monkeypatch):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 31, 1))
    with pytest.raises(BackendError, match=r"3\.37"):
        SqliteBackend(path)
