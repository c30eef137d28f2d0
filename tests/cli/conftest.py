"""An application on disk, and its worker as a process that a test reads, signals and ends."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from programs import Program
from scheduler import Producer
from scheduler_backends.sqlite import SqliteBackend

APPLICATION = """
import os, signal, sys, threading, time
from pathlib import Path
from scheduler import Producer, Retention, RetryPolicy, Worker, WorkerConfig
from scheduler_backends.memory import MemoryBackend
from scheduler_backends.sqlite import SqliteBackend

folder = Path(__file__).parent
backend = SqliteBackend(folder / "jobs.db", retention=Retention(succeeded=3600))
config = WorkerConfig(
    concurrency=2, lease_duration=float(os.environ.get("LEASE", 1.0)), heartbeat_interval=0.3, recover_interval=0.3,
    poll_interval=0.1, shutdown_grace=20.0, timeout_grace=0.1, retry_policy=RetryPolicy.fixed(0.01),
)
worker = Worker(backend, config)
in_memory = Worker(MemoryBackend(), config)
closed = Worker(SqliteBackend(folder / "closed.db"), config)
closed.backend.close()
producer = Producer(backend)

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())  # one write: print() writes the line's end separately

@worker.handler("say")
def _(job, ctx):
    say("ran", job.id, os.getpid())

@worker.handler("wait")  # until a file exists or the worker stops
def _(job, ctx):
    say("began", job.id, os.getpid())
    while not (folder / "go").exists() and not ctx.cancelled.wait(0.01):
        pass
    say("ended", job.id, ctx.reason)

@worker.handler("stuck")
def _(job, ctx):
    say("began", job.id, os.getpid())
    threading.Event().wait()

@worker.handler("die")
def _(job, ctx):
    say("dying", job.id, os.getpid())
    os.kill(os.getpid(), signal.SIGKILL)

@worker.handler("grow")
def _(job, ctx):
    hoard.append(bytearray(os.urandom(1) * 200 * 1024 * 1024))
hoard = []

def create():
    say("created")
    return worker

not_a_worker = 7
"""


class Application:
    """A folder with app.py, whose backend is an SQLite file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "app.py").write_text(APPLICATION)
        self.backend = SqliteBackend(folder / "jobs.db")
        self.producer = Producer(self.backend)
        self.commands: list[Program] = []

    def start(
        self, *arguments: str, before: Sequence[str] = (), safe_path: bool = False, **environment: str
    ) -> Program:
        python = [sys.executable, *(["-P"] if safe_path else [])]
        command = Program([*before, *python, "-m", "scheduler.cli", "worker", *arguments], self.folder, **environment)
        self.commands.append(command)
        return command

    def go(self) -> None:
        (self.folder / "go").touch()

    def states(self) -> dict[str, int]:
        return {state.value: count for state, count in self.backend.stats(["default"])[0].counts.items() if count}


@pytest.fixture
def application(tmp_path: Path) -> Iterator[Application]:
    app = Application(tmp_path)
    yield app
    for command in app.commands:
        command.kill()
    app.backend.close()
