"""The lock file beside the database: who may open it, and what happens when it is in the way."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from scheduler.jobs import NewJob
from scheduler_backends.sqlite import SqliteBackend
from scheduler_backends.sqlite.gate import Gate
from scheduler_backends.sqlite.slots import Open

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become other users")
GROUP, WEB, WORKER, STRANGER = 64_001, 64_002, 64_003, 64_004


def new_job() -> NewJob:
    return NewJob(type="mail", queue="side")


def lock_of(path: Path) -> Path:
    return Path(f"{path}-lock")


@pytest.mark.parametrize(
    ("mode", "lock_mode"), [(0o644, 0o600), (0o664, 0o660), (0o640, 0o600), (0o660, 0o660), (0o666, 0o666)]
)
def test_only_who_may_write_the_database_may_open_the_lock(path, mode, lock_mode):
    path.touch()
    path.chmod(mode)
    backend = SqliteBackend(path)
    backend.enqueue([new_job()])
    assert stat.S_IMODE(lock_of(path).stat().st_mode) == lock_mode
    backend.close()


def test_the_lock_lies_beside_the_real_file(tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "jobs.db"
    link.symlink_to("real/jobs.db")
    backend = SqliteBackend(link)
    backend.enqueue([new_job()])
    backend.close()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["jobs.db", "real"]
    assert sorted(entry.name for entry in (tmp_path / "real").iterdir()) == ["jobs.db", "jobs.db-lock"]


def test_a_lock_that_is_a_link_is_not_followed(backend, path, tmp_path):
    treasure = tmp_path / "treasure"
    treasure.write_text("dear")
    treasure.chmod(0o640)
    lock_of(path).symlink_to(treasure)
    with treasure.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        backend.enqueue([new_job()])
    assert treasure.read_text() == "dear"
    assert stat.S_IMODE(treasure.stat().st_mode) == 0o640
    assert lock_of(path).is_symlink()


def test_another_file_in_place_of_the_lock_keeps_its_mode(backend, path, tmp_path):
    treasure = tmp_path / "treasure"
    treasure.touch()
    treasure.chmod(0o604)
    os.link(treasure, lock_of(path))
    backend.enqueue([new_job()])
    assert stat.S_IMODE(treasure.stat().st_mode) == 0o604


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_in_place_of_the_lock_stops_nobody(backend, path, make):
    make(lock_of(path))
    backend.enqueue([new_job()])
    backend.enqueue([new_job()])


def test_a_lock_that_was_removed_is_made_again(backend, path):
    backend.enqueue([new_job()])
    lock_of(path).unlink()
    backend.enqueue([new_job()])
    assert lock_of(path).exists()


def test_a_lock_that_is_never_released_stops_nobody(backend, path):
    backend.enqueue([new_job()])
    with lock_of(path).open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        for _ in range(20):
            backend.enqueue([new_job()])
    gate = Gate(str(path))
    assert gate.enter(0.0)
    gate.close()


def test_a_closed_descriptor_of_the_lock_is_opened_again(backend):
    backend.enqueue([new_job()])
    gate = backend._store.file._open.get(Open).gate
    os.close(gate._descriptor)
    backend.enqueue([new_job()])
    backend.enqueue([new_job()])
    assert gate.enter(1.0)
    gate.leave()


def as_user(user: int, work) -> int:
    """Run *work* in a child that is *user*, with the usual umask; its status."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setgroups([GROUP])
            os.setgid(user if user == STRANGER else GROUP)
            if user == STRANGER:
                os.setgroups([])
            os.setuid(user)
            os.umask(0o022)
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.fixture
def shared(open_folder) -> Path:
    """A database in a folder of its own, which two users of one group share."""
    os.chown(open_folder, WEB, GROUP)
    open_folder.chmod(0o2775)
    path = open_folder / "jobs.db"
    path.touch()
    os.chown(path, WEB, GROUP)
    path.chmod(0o664)
    return path


def enqueue_at(path: Path) -> None:
    SqliteBackend(path).enqueue([new_job()])


@needs_root
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # a user is changed in a child only
def test_two_users_of_one_group_share_a_file(shared):
    for user in (WEB, WORKER, WEB):
        assert as_user(user, lambda: enqueue_at(shared)) == 0
    with closing(sqlite3.connect(shared)) as direct:
        assert direct.execute("SELECT count(*) FROM scheduler_job").fetchone() == (3,)
    found = lock_of(shared).stat()
    assert (stat.S_IMODE(found.st_mode), found.st_gid) == (0o660, GROUP)


@needs_root
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # a user is changed in a child only
def test_a_user_who_may_only_read_cannot_open_the_lock(shared):
    assert as_user(WEB, lambda: enqueue_at(shared)) == 0
    assert as_user(STRANGER, lambda: shared.open("rb").close()) == 0
    assert as_user(STRANGER, lambda: lock_of(shared).open("rb")) == 1


@needs_root
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # a user is changed in a child only
def test_a_database_that_root_made_and_gave_away_is_used_by_its_owner(shared):
    shared.unlink()
    enqueue_at(shared)
    for entry in shared.parent.iterdir():
        if not entry.name.endswith("-lock"):
            os.chown(entry, WORKER, GROUP)
    os.chown(shared.parent, WORKER, GROUP)
    assert as_user(WORKER, lambda: enqueue_at(shared)) == 0
