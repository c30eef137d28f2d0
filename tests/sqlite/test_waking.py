"""A waiter notices the commits of other processes by the file's log."""

from __future__ import annotations

import os
import shutil
import sqlite3
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from scheduler.abilities import WakeReason
from scheduler.errors import BackendError
from scheduler.jobs import NewJob
from scheduler.waiting import DescriptorWaiter
from scheduler_backends.sqlite import SqliteBackend, inotify, watching

QUEUE = "waking"
WAIT_TIMEOUT = 30.0
# Enqueues to the queue named on each line of its input, and prints a line once it is stored.
PRODUCER = """
import sys
from scheduler.jobs import NewJob
from scheduler_backends.sqlite import SqliteBackend
backend = SqliteBackend(sys.argv[1])
backend.ping()
print("ready", flush=True)
for line in sys.stdin:
    backend.enqueue([NewJob(type="mail", queue=line.strip())])
    print("stored", flush=True)
backend.close()
"""
# Commits to another queue, so many times a second, until its input ends.
NOISE = """
import sys, threading, time
from scheduler.jobs import NewJob
from scheduler_backends.sqlite import SqliteBackend
backend = SqliteBackend(sys.argv[1])
over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
print("ready", flush=True)
count = 0
while not over.wait(1 / float(sys.argv[2])):
    backend.enqueue([NewJob(type="mail", queue="noise")])
    count += 1
print(count, flush=True)
backend.close()
"""


@pytest.fixture(autouse=True)
def _no_idle_looks(monkeypatch):
    """Nothing is found by the look that comes every two seconds anyway: it would hide a write that was missed."""
    monkeypatch.setattr(watching, "_IDLE", 3_600.0)


@pytest.fixture(params=["inotify", "polling"])
def way(request, monkeypatch) -> str:
    if request.param == "polling":

        def refuse(*_: object) -> None:
            raise OSError("inotify cannot be had")

        monkeypatch.setattr(inotify, "subscribe", refuse)
    elif not sys.platform.startswith("linux"):
        pytest.skip("inotify is Linux's")
    return str(request.param)


@contextmanager
def program(source: str, *arguments: object, **variables: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", source, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **variables},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.stdin.close()
        process.stdout.close()
        try:
            process.wait(WAIT_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def tell(process: subprocess.Popen[str], queue: str = QUEUE) -> None:
    process.stdin.write(f"{queue}\n")
    process.stdin.flush()


def heard(process: subprocess.Popen[str]) -> None:
    assert process.stdout.readline() == "stored\n"


def woken(waiter: DescriptorWaiter) -> bool:
    deadline = time.monotonic() + WAIT_TIMEOUT
    while (left := deadline - time.monotonic()) > 0.0:
        if WakeReason.JOBS_READY in waiter.wait(left):
            return True
    return False


def take_all(backend: SqliteBackend, queue: str = QUEUE) -> None:
    backend.purge(queue, "ready", 10_000)


def quieten(waiter: DescriptorWaiter) -> None:
    while waiter.wait(0.1):
        pass


def test_each_job_of_another_process_wakes(backend, path, way):
    waiter = backend.waiter([QUEUE])
    with program(PRODUCER, path) as producer, closing(waiter):
        for _ in range(20):
            quieten(waiter)
            tell(producer)
            assert woken(waiter)
            heard(producer)
            take_all(backend)


@pytest.fixture(scope="session")
def slow_fsync(tmp_path_factory) -> Path:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("needs Linux and a C compiler")
    library = tmp_path_factory.mktemp("fsync") / "slow_fsync.so"
    source = Path(__file__).with_name("slow_fsync.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
    return library


@pytest.mark.parametrize("milliseconds", [0, 40, 150])
def test_a_commit_that_takes_long_to_reach_the_disk_wakes(backend, path, slow_fsync, milliseconds):
    waiter = backend.waiter([QUEUE])
    variables = {"LD_PRELOAD": str(slow_fsync), "FSYNC_DELAY": str(milliseconds * 1_000)}
    with program(PRODUCER, path, **variables) as producer, closing(waiter):
        for _ in range(10):
            quieten(waiter)
            tell(producer)
            assert woken(waiter)
            heard(producer)
            take_all(backend)


@pytest.mark.parametrize("milliseconds", [5, 80])
def test_a_slow_commit_behind_quick_ones_wakes(backend, path, slow_fsync, milliseconds):
    """Its write may come before the look that finds the commit before it."""
    waiter = backend.waiter([QUEUE])
    variables = {"LD_PRELOAD": str(slow_fsync), "FSYNC_DELAY": str(milliseconds * 1_000)}
    with program(PRODUCER, path, **variables) as slow, program(NOISE, path, 500), closing(waiter):
        for _ in range(15):
            tell(slow)
            assert woken(waiter)
            heard(slow)
            take_all(backend)


def test_commits_to_other_queues_neither_wake_nor_cost_more_than_a_bound(backend, path, monkeypatch, way):
    looks = [0]
    look = watching.Watch._look

    def counted(self, now):
        looks[0] += 1
        return look(self, now)

    monkeypatch.setattr(watching.Watch, "_look", counted)
    waiter = backend.waiter([QUEUE])
    with program(PRODUCER, path) as producer, program(NOISE, path, 200) as noise, closing(waiter):
        quieten(waiter)
        begun, looks[0] = time.monotonic(), 0
        assert not waiter.wait(2.0)
        seconds = time.monotonic() - begun
        assert 0 < looks[0] <= 50 * seconds + 25
        tell(producer)
        assert woken(waiter)
        noise.stdin.close()
        assert int(noise.stdout.readline()) > 0


def test_a_checkpoint_by_another_process_leaves_the_watch_in_place(backend, path, way):
    waiter = backend.waiter([QUEUE])
    with program(PRODUCER, path) as producer, closing(waiter):
        for mode in ("PASSIVE", "FULL", "RESTART", "TRUNCATE"):
            tell(producer)
            assert woken(waiter)
            heard(producer)
            take_all(backend)
            quieten(waiter)
            subprocess.run(
                [sys.executable, "-c", CHECKPOINT, str(path), mode],
                check=True,
                timeout=WAIT_TIMEOUT,
                capture_output=True,
            )
            quieten(waiter)
            tell(producer)
            assert woken(waiter)
            heard(producer)
            take_all(backend)


CHECKPOINT = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute(f"PRAGMA wal_checkpoint({sys.argv[2]})")
connection.close()
"""


def test_a_waiter_goes_on_once_its_log_was_removed(backend, path, way):
    waiter = backend.waiter([QUEUE])
    backend.enqueue([NewJob(type="mail", queue="elsewhere")])
    quieten(waiter)
    with closing(sqlite3.connect(path)) as direct:
        direct.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    Path(f"{path}-wal").unlink()
    with program(PRODUCER, path) as producer, closing(waiter):
        deadline = time.monotonic() + WAIT_TIMEOUT
        raised = False
        while not raised:  # as a worker would, which waits again
            assert time.monotonic() < deadline
            try:
                waiter.wait(0.2)
            except BackendError:
                raised = True
        with suppress(BackendError):
            quieten(waiter)
        tell(producer)
        assert woken(waiter)
        heard(producer)


OVERFLOW = struct.pack("iIII", -1, 0x4000, 0, 0)
IGNORED = 0x8000


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="inotify is Linux's")
@pytest.mark.parametrize("loss", ["overflow", "ignored", "closed"])
def test_a_waiter_goes_on_after_events_were_lost(backend, path, monkeypatch, loss):
    """The queue of events has overflowed, the watch has ended, or a handler has closed the descriptor."""
    waiter = backend.waiter([QUEUE])
    with program(PRODUCER, path) as producer, closing(waiter):
        quieten(waiter)
        before = waiter._source._subscription
        if loss == "closed":
            os.close(before.descriptor)
        else:
            events = OVERFLOW if loss == "overflow" else struct.pack("iIII", before._watch, IGNORED, 0, 0)
            with monkeypatch.context() as patch:
                patch.setattr(inotify.os, "read", lambda *_: events)
                before.take_events()
            assert before.lost
            before.written = True  # as when the waiter's own thread has read them
        quieten(waiter)
        assert waiter._source._subscription is not before
        tell(producer)
        assert woken(waiter)
        heard(producer)


WAITER = """
import os, sys
from scheduler.abilities import WakeReason
from scheduler_backends.sqlite import SqliteBackend, watching
watching._IDLE = 3_600.0
if sys.argv[2] == "polling":
    watching.inotify.ctypes = None  # as on another system
backend = SqliteBackend(sys.argv[1])
waiter = backend.waiter(["waking"])
while waiter.wait(0.1):
    pass
print("ready", flush=True)
while WakeReason.JOBS_READY not in waiter.wait(30.0):
    pass
print("stored", flush=True)
waiter.close()
backend.close()
"""
GROUP, WEB, WORKER = 64_001, 64_002, 64_003


def as_user(user: int, source: str) -> str:
    """*source* run by *user*, from where it makes its backend."""
    become = f"import os; os.setgroups([{GROUP}]); os.setgid({GROUP}); os.setuid({user}); os.umask(0o022)"
    return source.replace("backend = ", f"{become}\nbackend = ", 1)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become other users")
@pytest.mark.parametrize("users", [(WEB, WORKER), (WORKER, WEB)])
def test_a_commit_of_another_user_of_the_group_wakes(open_folder, users, way):
    path = open_folder / "jobs.db"
    open_folder.chmod(0o2770)
    path.touch(0o660)
    path.chmod(0o660)
    for place in (open_folder, path):
        os.chown(place, WEB, GROUP)
    waiting, producing = as_user(users[0], WAITER), as_user(users[1], PRODUCER)
    with program(waiting, path, way) as waiter, program(producing, path) as producer:
        tell(producer)
        heard(producer)
        heard(waiter)


def test_waiters_of_several_files_share_one_instance(tmp_path):
    backends = [SqliteBackend(tmp_path / f"{number}.db") for number in range(3)]
    others = [SqliteBackend(tmp_path / f"{number}.db") for number in range(3)]
    waiters = [backend.waiter([QUEUE]) for backend in backends for _ in range(2)]
    for waiter in waiters:
        quieten(waiter)
    if sys.platform.startswith("linux"):
        assert len({waiter._source._subscription.descriptor for waiter in waiters}) == 1
    results: list[bool] = []
    threads = [threading.Thread(target=lambda waiter=waiter: results.append(woken(waiter))) for waiter in waiters]
    for thread in threads:
        thread.start()
    for other in others:
        other.enqueue([NewJob(type="mail", queue=QUEUE)])
    for thread in threads:
        thread.join(2 * WAIT_TIMEOUT)
    assert results == [True] * 6
    for waiter in waiters:
        waiter.close()
    assert inotify._instance.get(inotify._Instance).descriptor == -1, "closed with its last watch"
    for backend in (*backends, *others):
        backend.close()


def test_sooner_is_told_once(backend, path):
    other = SqliteBackend(path)
    waiter = backend.waiter([QUEUE])
    quieten(waiter)
    other.enqueue([NewJob(type="mail", queue=QUEUE, delay=50.0)])
    assert waiter.wait(WAIT_TIMEOUT) == WakeReason.EARLIER_DUE_TIME
    other.enqueue([NewJob(type="mail", queue=QUEUE, delay=55.0)])
    assert not waiter.wait(0.2), "the next due time is the same"
    other.enqueue([NewJob(type="mail", queue=QUEUE, delay=40.0)])
    assert waiter.wait(WAIT_TIMEOUT) == WakeReason.EARLIER_DUE_TIME
    waiter.close()
    other.close()


def test_a_paused_queue_does_not_wake_before_it_is_resumed(backend, path):
    other = SqliteBackend(path)
    backend.pause(QUEUE)
    waiter = backend.waiter([QUEUE])
    quieten(waiter)
    other.enqueue([NewJob(type="mail", queue=QUEUE)])
    assert not waiter.wait(0.2)
    other.resume(QUEUE)
    assert woken(waiter)
    waiter.close()
    other.close()


def test_the_first_wait_finds_what_is_there(backend, path):
    waiter = backend.waiter([QUEUE])
    other = SqliteBackend(path)
    other.enqueue([NewJob(type="mail", queue=QUEUE)])
    assert woken(waiter)
    waiter.close()
    other.close()
