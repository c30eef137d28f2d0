"""A process forks while it has the file open, with Python's hooks and without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from scheduler.jobs import NewJob
from scheduler.states import JobState
from scheduler_backends.sqlite import SqliteBackend

QUEUE = "forks"

# A program of its own: a fork in C leaves the hooks of Python, and the test runner's threads, out.
WITHOUT_HOOKS = """
import ctypes, gc, json, math, os, sys, threading
from scheduler.jobs import NewJob
from scheduler_backends.sqlite import SqliteBackend

def job(kind):
    return NewJob(type=kind, queue="forks")

def use(kind):
    ids = []
    for _ in range(40):
        (answer,) = backend.enqueue([job(kind)])
        assert answer.job.type == kind
        assert backend.get("forks", [answer.job.id])[answer.job.id].id == answer.job.id
        ids.append(answer.job.id)
    return ids

backend = SqliteBackend(sys.argv[1])
backend.enqueue([job("parent")])
waiter = backend.waiter(["forks"])
while waiter.wait(0.05):
    pass
# A fork in C at a moment when another thread is inside SQLite, or asks for the interpreter's lock, leaves a child that
# waits for that thread for ever. So the thread looks at nothing until something is written, and asks patiently.
waiter._source._next = math.inf
sys.setswitchinterval(60.0)
waiting = threading.Thread(target=lambda: waiter.wait(600.0))  # polls the descriptor of inotify
waiting.start()
libc = ctypes.PyDLL(None)  # the interpreter's lock stays held, as in a server's own fork
go, start = os.pipe()  # closed when all are there
ends = []
for number in range(4):
    readable, writable = os.pipe()
    if libc.fork() == 0:
        os.close(start)
        os.read(go, 1)
        ids = use(f"child-{number}")
        if number % 2:
            assert waiter.wait(30.0)  # a source of its own
        waiter.close()
        own = backend.waiter(["forks"])
        assert own.wait(30.0)
        own.close()
        if number % 2:
            backend.close()
        else:
            del backend
            gc.collect()
        os.write(writable, json.dumps(ids).encode())
        os._exit(0)
    os.close(writable)
    ends.append(readable)
os.close(start)
ids = use("parent")
for end in ends:
    with os.fdopen(end) as text:
        ids += json.loads(text.read())
waiter.interrupt()
waiting.join(30)
waiter._source._next = 0.0
while waiter.wait(0.05):
    pass
other = SqliteBackend(sys.argv[1])
other.enqueue([job("parent")])
assert waiter.wait(30.0), "a child has ended the parent's watch"
fresh = SqliteBackend(sys.argv[1])
print(json.dumps({"acknowledged": len(ids), "found": len(fresh.get("forks", ids))}))
for one in (backend, other, fresh):
    one.close()
"""


def test_a_fork_without_hooks_shares_nothing(path):
    """Guarantee 27, as uWSGI forks."""
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_HOOKS, str(path)], capture_output=True, text=True, timeout=100, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == {"acknowledged": 200, "found": 200}


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # the very thing that is tried
def test_a_child_keeps_its_own_locks_when_the_parent_closes(path):
    """Without them the parent, as the last that SQLite knows of, removes the log that the child writes to."""
    backend = SqliteBackend(path)
    backend.enqueue([NewJob(type="mail", queue=QUEUE)])
    (begun, begin), (closed, close) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            backend.enqueue([NewJob(type="mail", queue=QUEUE)])
            os.write(begin, b"1")
            os.read(closed, 1)
            for _ in range(10):
                backend.enqueue([NewJob(type="mail", queue=QUEUE)])
            code = 0
        finally:
            os._exit(code)  # as if killed: nothing is closed
    assert os.read(begun, 1) == b"1"
    backend.close()
    assert Path(f"{path}-wal").exists()
    os.write(close, b"1")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    for end in (begun, begin, closed, close):
        os.close(end)
    fresh = SqliteBackend(path)
    assert fresh.stats([QUEUE])[0].counts[JobState.READY] == 12
    fresh.close()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # the very thing that is tried
def test_forks_of_a_busy_process_leave_both_able_to_go_on(backend):
    stop = threading.Event()

    def enqueue() -> None:
        while not stop.is_set():
            backend.enqueue([NewJob(type="parent", queue="busy")])
            backend.stats(["busy"])

    threads = [threading.Thread(target=enqueue) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                backend.enqueue([NewJob(type="child", queue=QUEUE)])
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    stop.set()
    for thread in threads:
        thread.join(60)
    assert backend.stats([QUEUE])[0].counts[JobState.READY] == 20
