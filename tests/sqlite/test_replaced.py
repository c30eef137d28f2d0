"""The file, or its log, is removed or replaced while stores have it open."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from scheduler.config import WorkerConfig
from scheduler.errors import BackendError
from scheduler.jobs import NewJob
from scheduler.worker import Worker
from scheduler_backends.sqlite import SqliteBackend

QUEUE = "replaced"
WAIT_TIMEOUT = 60.0


def new_job() -> NewJob:
    return NewJob(type="mail", queue=QUEUE)


def remove(path: Path) -> None:
    for ending in ("", "-wal", "-shm"):
        Path(f"{path}{ending}").unlink(missing_ok=True)


def copy_of(path: Path) -> Path:
    """A backup, as SQLite makes it."""
    copy = path.with_name("backup.db")
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    return copy


def replace(path: Path) -> None:
    copy = copy_of(path)
    remove(path)
    copy.rename(path)


def calls_of(backend: SqliteBackend) -> list[Callable[[], object]]:
    return [
        lambda: backend.enqueue([new_job()]),
        lambda: backend.enqueue([new_job(), new_job()]),
        lambda: backend.get(QUEUE, ["x"]),
        lambda: backend.stats([QUEUE]),
    ]


@pytest.mark.parametrize("number", range(4))
def test_no_call_goes_to_a_file_that_was_removed(backend, path, number):
    backend.enqueue([new_job()])
    remove(path)
    for _ in range(3):
        with pytest.raises(BackendError, match="removed"):
            calls_of(backend)[number]()
    assert not path.exists(), "nobody begins a new file while one may be about to be restored"


def test_what_is_acknowledged_after_a_restore_is_in_the_restored_file(backend, path):
    (kept,) = backend.enqueue([new_job()])
    replace(path)
    with pytest.raises(BackendError, match="replaced"):
        backend.enqueue([new_job()])
    (answer,) = backend.enqueue([new_job()])
    other = SqliteBackend(path)
    assert set(other.get(QUEUE, [kept.job.id, answer.job.id])) == {kept.job.id, answer.job.id}
    other.close()


def test_a_store_that_lets_go_of_a_replaced_file_leaves_the_log_of_the_new_one(backend, path):
    backend.enqueue([new_job()])
    backend.get(QUEUE, ["x"])
    replace(path)
    other = SqliteBackend(path)
    (answer,) = other.enqueue([new_job()])
    log = Path(f"{path}-wal").stat()
    with pytest.raises(BackendError, match="replaced"):
        backend.enqueue([new_job()])
    with pytest.raises(BackendError, match="replaced"):
        backend.get(QUEUE, ["x"])
    assert os.path.samestat(Path(f"{path}-wal").stat(), log)
    assert backend.get(QUEUE, [answer.job.id])
    other.close()


def test_a_file_that_is_put_back_is_used_again(backend, path):
    (kept,) = backend.enqueue([new_job()])
    aside = [(Path(f"{path}{end}"), Path(f"{path}.aside{end}")) for end in ("", "-wal", "-shm")]
    for place, other in aside:
        place.rename(other)
    with pytest.raises(BackendError, match="removed"):
        backend.enqueue([new_job()])
    for place, other in aside:
        other.rename(place)
    backend.enqueue([new_job()])
    assert backend.get(QUEUE, [kept.job.id])


@pytest.mark.parametrize("migrate", [True, False])
def test_a_copy_that_has_only_begun_is_not_written_to(path, migrate):
    first = SqliteBackend(path)
    first.migrate()
    first.close()
    backend = SqliteBackend(path, migrate=migrate)
    backend.enqueue([new_job()])
    copy = copy_of(path)
    remove(path)
    path.touch()  # as cp begins
    for _ in range(2):
        for call in calls_of(backend):
            with pytest.raises(BackendError):
                call()
    assert path.stat().st_size == 0
    path.write_bytes(copy.read_bytes())
    backend.enqueue([new_job()])
    backend.close()


def test_a_log_that_was_removed_acknowledges_nothing_that_others_cannot_see(backend, path):
    backend.enqueue([new_job()])
    Path(f"{path}-wal").unlink()
    with pytest.raises(BackendError, match="log was removed"):
        backend.enqueue([new_job()])


def test_a_link_that_is_laid_anew_leads_to_the_other_file(tmp_path):
    link = tmp_path / "jobs.db"
    for name in ("old.db", "new.db"):
        made = SqliteBackend(tmp_path / name)
        made.migrate()
        made.close()
    link.symlink_to("old.db")
    backend = SqliteBackend(link)
    backend.enqueue([new_job()])
    link.unlink()
    link.symlink_to("new.db")
    with pytest.raises(BackendError, match="replaced"):
        backend.enqueue([new_job()])
    (answer,) = backend.enqueue([new_job()])
    new = SqliteBackend(tmp_path / "new.db")
    assert new.get(QUEUE, [answer.job.id])
    new.close()
    backend.close()


def test_a_worker_waits_and_goes_on_with_the_restored_file(path):
    backend = SqliteBackend(path)
    first, second = threading.Event(), threading.Event()
    worker = Worker(backend, WorkerConfig(queues=(QUEUE,), concurrency=1, poll_interval=0.2))
    worker.handler("mail")(lambda job, ctx: (second if first.is_set() else first).set())
    with worker:
        backend.enqueue([new_job()])
        assert first.wait(WAIT_TIMEOUT)
        shutil.copy(copy_of(path), path.with_name("kept.db"))
        remove(path)
        with pytest.raises(BackendError, match="removed"):
            SqliteBackend.get(backend, QUEUE, ["x"])
        path.with_name("kept.db").rename(path)
        producer = SqliteBackend(path)
        producer.enqueue([new_job()])
        assert second.wait(WAIT_TIMEOUT)
        producer.close()
    backend.close()
