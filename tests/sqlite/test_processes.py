"""Several processes on one file."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import time
import traceback
from contextlib import closing
from pathlib import Path

import pytest

from scheduler.errors import BackendUnavailable
from scheduler.identity import new_token
from scheduler.jobs import NewJob
from scheduler.leases import Completion
from scheduler.states import JobState
from scheduler_backends.sqlite import SqliteBackend

QUEUE = "shared"
SPAWN = multiprocessing.get_context("spawn")


def work_off(path: str, gate, answers) -> None:
    """What a busy worker does to the store, with a little work in between."""
    backend = SqliteBackend(path, timeout=60.0)  # on a loaded machine a commit may take seconds
    backend.ping()
    gate.wait(60)
    done = 0
    while leases := backend.lease([QUEUE], token=new_token(), worker_id="w", duration=60.0, limit=8):
        done += len(leases)
        sum(range(20_000))
        assert backend.complete([Completion(lease=lease) for lease in leases]) == []
    answers.put(done)
    backend.close()


def test_busy_processes_get_their_turns(path):
    """Within a factor of three; with SQLite's own busy timeout it was 64 to 11,264 jobs."""
    backend = SqliteBackend(path)
    backend.enqueue([NewJob(type="mail", queue=QUEUE) for _ in range(8_000)])
    gate, answers = SPAWN.Barrier(4), SPAWN.Queue()
    processes = [SPAWN.Process(target=work_off, args=(str(path), gate, answers)) for _ in range(4)]
    for process in processes:
        process.start()
    found = [answers.get(timeout=100) for _ in processes]
    for process in processes:
        process.join(30)
    assert sum(found) == 8_000
    assert max(found) <= 3 * min(found), found
    assert sum(backend.stats([QUEUE])[0].counts.values()) == 0
    backend.close()


def work_for_ever(path: str) -> None:
    backend = SqliteBackend(path)
    while True:
        backend.enqueue([NewJob(type="mail", queue=QUEUE, payload=b"x" * 500) for _ in range(5)])
        leases = backend.lease([QUEUE], token=new_token(), worker_id="w", duration=0.05, limit=8)
        backend.complete([Completion(lease=lease) for lease in leases])
        backend.recover_expired([QUEUE], 100)


def test_processes_killed_at_any_moment_leave_a_sound_file(path):
    backend = SqliteBackend(path)
    for _ in range(5):
        processes = [SPAWN.Process(target=work_for_ever, args=(str(path),)) for _ in range(2)]
        for process in processes:
            process.start()
        before = backend.stats([QUEUE])[0].counts[JobState.LEASED]
        deadline = time.monotonic() + 60
        while backend.stats([QUEUE])[0].counts[JobState.LEASED] == before:  # they are at it
            assert time.monotonic() < deadline
        for process in processes:
            process.kill()
            process.join(30)
    with closing(sqlite3.connect(path)) as direct:
        assert direct.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    backend.enqueue([NewJob(type="mail", queue=QUEUE)])  # nobody holds the gate
    backend.close()


def test_a_stopped_process_in_the_gate_holds_nobody_up_for_ever(path):
    backend = SqliteBackend(path, timeout=0.3)
    backend.ping()
    process = SPAWN.Process(target=hold_the_gate, args=(str(path),))
    process.start()
    try:
        deadline = time.monotonic() + 60
        while not Path(f"{path}.held").exists():
            assert time.monotonic() < deadline
        os.kill(process.pid, signal.SIGSTOP)
        with pytest.raises(BackendUnavailable, match="locked"):
            backend.enqueue([NewJob(type="mail", queue=QUEUE)])
    finally:
        process.kill()
        process.join(30)
    backend.enqueue([NewJob(type="mail", queue=QUEUE)])
    backend.close()


def hold_the_gate(path: str) -> None:
    backend = SqliteBackend(path)
    with backend._store.file.writing():
        Path(f"{path}.held").touch()
        signal.pause()


def enqueue_when_told(path: str, told, stored) -> None:
    backend = SqliteBackend(path)
    while told.get(timeout=60):
        backend.enqueue([NewJob(type="mail", queue=QUEUE)])
        stored.put(time.time())
    backend.close()


def test_work_of_another_process_wakes_a_waiter(path):
    backend = SqliteBackend(path)
    waiter = backend.waiter([QUEUE])
    told, stored = SPAWN.Queue(), SPAWN.Queue()
    process = SPAWN.Process(target=enqueue_when_told, args=(str(path), told, stored))
    process.start()
    for _ in range(5):
        while waiter.wait(0.05):
            pass
        told.put(True)
        assert waiter.wait(60.0)
        stored.get(timeout=60)
    told.put(False)
    process.join(30)
    waiter.close()
    backend.close()


def enqueue_in_child(backend: SqliteBackend) -> None:
    code = 1
    try:
        for _ in range(100):
            backend.enqueue([NewJob(type="child", queue=QUEUE)])
        backend.close()
        code = 0
    except BaseException:
        traceback.print_exc()  # else nobody sees why the test has failed
        raise
    finally:
        os._exit(code)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # the very thing that is tried
def test_children_of_a_fork_share_nothing(path):
    """Guarantee 27: four of them, and their parent meanwhile."""
    backend = SqliteBackend(path)
    backend.enqueue([NewJob(type="parent", queue=QUEUE)])
    waiter = backend.waiter([QUEUE])
    fork = multiprocessing.get_context("fork")
    children = [fork.Process(target=enqueue_in_child, args=(backend,)) for _ in range(4)]
    for child in children:
        child.start()
    for _ in range(100):
        backend.enqueue([NewJob(type="parent", queue=QUEUE)])
    for child in children:
        child.join(60)
    assert [child.exitcode for child in children] == [0] * 4
    assert backend.stats([QUEUE])[0].counts[JobState.READY] == 501
    while waiter.wait(0.05):
        pass
    other = SqliteBackend(path)
    other.enqueue([NewJob(type="parent", queue=QUEUE)])
    assert waiter.wait(10.0), "the parent's waiter was closed by a child"
    waiter.close()
    other.close()
    backend.close()


def open_at_once(path: str, gate, answers) -> None:
    backend = SqliteBackend(path)
    gate.wait(60)
    try:
        backend.enqueue([NewJob(type="mail", queue=QUEUE)])
        answers.put("ok")
    except BaseException as error:
        answers.put(repr(error))
        raise
    backend.close()


def test_eight_processes_may_make_the_file_at_once(path):
    gate, answers = SPAWN.Barrier(8), SPAWN.Queue()
    processes = [SPAWN.Process(target=open_at_once, args=(str(path), gate, answers)) for _ in range(8)]
    for process in processes:
        process.start()
    assert [answers.get(timeout=100) for _ in processes] == ["ok"] * 8
    for process in processes:
        process.join(30)
    backend = SqliteBackend(path)
    assert backend.stats([QUEUE])[0].counts[JobState.READY] == 8
    backend.close()
