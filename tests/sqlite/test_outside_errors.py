"""Whatever SQLite and the system raise is an error of the library, and a store that was away recovers."""

from __future__ import annotations

import errno
import os
import resource
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from scheduler.errors import BackendError, BackendUnavailable
from scheduler.jobs import NewJob
from scheduler.states import JobState
from scheduler_backends.sqlite import SqliteBackend
from scheduler_backends.sqlite.errors import translated

QUEUE = "outside"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def new_job() -> NewJob:
    return NewJob(type="mail", queue=QUEUE)


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), BackendUnavailable),
        (OSError(errno.EMFILE, "Too many open files"), BackendUnavailable),
        (OSError(errno.EIO, "Input/output error"), BackendUnavailable),
        (OSError(errno.EROFS, "Read-only file system"), BackendError),
        (PermissionError(errno.EACCES, "Permission denied"), BackendError),
        (MemoryError(), BackendUnavailable),
        (OverflowError("Python int too large to convert to SQLite INTEGER"), BackendError),
        (UnicodeEncodeError("utf-8", "secret \ud800", 7, 8, "surrogates not allowed"), BackendError),
        (sqlite3.Warning("You can only execute one statement at a time."), BackendError),
        (sqlite3.InterfaceError("bad parameter or other API misuse"), BackendError),
    ],
)
def test_nothing_is_raised_bare(backend, raised, kind):
    with pytest.raises(BackendError) as caught, backend._store.file.writing():
        raise raised
    assert type(caught.value) is kind
    assert "jobs.db" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is raised


@pytest.mark.parametrize("code", ["SQLITE_READONLY_DIRECTORY", "SQLITE_IOERR_SHORT_READ", "SQLITE_CANTOPEN_ISDIR"])
def test_extended_codes_are_read_by_their_primary_one(code):
    error = sqlite3.OperationalError("of SQLite")
    error.sqlite_errorcode = getattr(sqlite3, code)
    assert "of SQLite" in str(translated(error, "jobs.db"))


def test_values_that_sqlite_cannot_take_are_errors_of_ours(backend):
    backend.migrate()
    for value in (2**70, "\ud800"):
        with pytest.raises(BackendError), backend._store.file.writing() as connection:
            connection.execute("SELECT ?", (value,))
    backend.enqueue([new_job()])


def test_a_process_without_descriptors_waits_and_goes_on(path):
    SqliteBackend(path).migrate()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    backend = SqliteBackend(path)
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(400, limit[1]), limit[1]))
    try:
        while True:
            try:
                taken.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                break
        for call in (lambda: backend.enqueue([new_job()]), backend.ping, lambda: backend.waiter([QUEUE])):
            with pytest.raises(BackendUnavailable):
                call()
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    backend.enqueue([new_job()])
    waiter = backend.waiter([QUEUE])
    assert waiter.wait(30.0)
    waiter.close()
    backend.close()


# What a user who may not write the folder, or the file, meets, and what it does once that has changed.
READ_ONLY = """
import os, sys
from scheduler.errors import BackendError
from scheduler.jobs import NewJob
from scheduler_backends.sqlite import SqliteBackend
os.setgroups([]); os.setgid(64_009); os.setuid(64_009)
backend = SqliteBackend(sys.argv[1], timeout=1.0)
other = SqliteBackend(sys.argv[1], timeout=1.0)
try:
    other.get("outside", ["x"])
except BackendError:
    pass
refused = 0
for call in (lambda: backend.get("outside", ["x"]), lambda: backend.enqueue([NewJob(type="mail", queue="outside")])):
    try:
        call()
    except BackendError:
        refused += 1
print("ready", refused, flush=True)
sys.stdin.readline()
for number in (1, 2):  # the one that fails may be the one that notices
    try:
        backend.enqueue([NewJob(type="mail", queue="outside")])
        break
    except BackendError:
        if number == 2:
            raise
other.enqueue([NewJob(type="mail", queue="outside")])
assert len(backend.list("outside", "ready").jobs) >= 1
backend.close()
"""


@needs_root
@pytest.mark.parametrize("what", ["file", "folder", "both"])
@pytest.mark.parametrize("in_use", [True, False])
def test_a_store_that_was_opened_read_only_writes_once_it_may(open_folder, what, in_use):
    folder, path = open_folder, open_folder / "jobs.db"
    other = SqliteBackend(path)
    other.enqueue([new_job()])
    if not in_use:
        other.close()
    allowed = {folder: 0o777, path: 0o666, Path(f"{path}-wal"): 0o666, Path(f"{path}-shm"): 0o666}
    for place, mode in allowed.items():
        if place.exists():
            place.chmod(mode)
    if what in ("folder", "both"):
        folder.chmod(0o755)
    if what in ("file", "both"):
        for place in list(allowed)[1:]:
            if place.exists():
                place.chmod(0o644)
    with subprocess.Popen(
        [sys.executable, "-c", READ_ONLY, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        said = process.stdout.readline().split()
        for place, mode in allowed.items():
            if place.exists():
                place.chmod(mode)
        _, errors = process.communicate("go on\n", timeout=60)
    assert said[:1] == ["ready"], errors
    if not (in_use and what == "folder"):  # then everything that is needed is there
        assert int(said[1]) >= 1
    assert process.returncode == 0, errors
    other.close()


def test_the_log_shrinks_once_a_long_reader_has_gone(backend, path):
    backend.enqueue([new_job()])
    log = Path(f"{path}-wal")
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM scheduler_job").fetchone()
        jobs = [NewJob(type="mail", queue=QUEUE, payload=b"x" * 100_000) for _ in range(500)]
        backend.enqueue(jobs)
        assert log.stat().st_size > 40_000_000
        reader.execute("COMMIT")
    for _ in range(3):  # a checkpoint, and then a write from the log's beginning
        backend.enqueue([new_job()])
    assert log.stat().st_size < 40_000_000


@pytest.mark.parametrize("first", [True, False])
def test_reading_waits_for_no_writer(path, first):
    made = SqliteBackend(path)
    (answer,) = made.enqueue([new_job()])
    backend = SqliteBackend(path, timeout=60.0)
    if not first:
        backend.ping()
    with made._store.file.writing():  # in the gate, too
        begun = time.monotonic()
        assert backend.get(QUEUE, [answer.job.id])
        assert backend.stats([QUEUE])[0].counts[JobState.READY] == 1
        assert len(backend.list(QUEUE, JobState.READY).jobs) == 1
        waiter = backend.waiter([QUEUE])
        assert waiter.wait(20.0)
        assert time.monotonic() - begun < 30.0
    waiter.close()
    backend.close()
    made.close()


CLOSES = """
import os, sys, tempfile
from scheduler.errors import BackendClosed
from scheduler.jobs import NewJob
from scheduler_backends.sqlite import SqliteBackend

backend = SqliteBackend(sys.argv[1])
backend.enqueue([NewJob(type="t", id=str(number)) for number in range(100)])
backend.stats()
waiter = backend.waiter(["default"])
waiter.wait(0.0)
os.closerange(3, 1_024)
others = [open(sys.argv[1] + f".{number}", "w+b", buffering=0) for number in range(50)]
for call in (backend.stats, lambda: backend.enqueue([NewJob(type="t")]), backend.ping):
    try:
        call()
    except BackendClosed as error:
        assert "closed" in str(error)
    else:
        raise AssertionError("the connections were used")
try:
    waiter.wait(1.0)
except OSError:
    pass
waiter.close()
backend.close()
for other in others:
    assert os.fstat(other.fileno()).st_size == 0, "written to another's file"
    other.write(b"x")
"""


def test_once_somebody_has_closed_all_descriptors_no_other_file_is_touched(path):
    """Their numbers belong to others then, which SQLite would read, write and close."""
    command = [sys.executable, "-c", CLOSES, str(path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert other.execute("SELECT count(*) FROM scheduler_job").fetchone() == (100,)
