"""An application on disk, and its worker as a process that a test can read, signal and end."""

from __future__ import annotations

import contextlib
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

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
producer = Producer(backend)

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())  # at once: print() writes the line's end apart

@worker.handler("say")
def _(job, ctx):
    say("ran", job.id, os.getpid())

@worker.handler("wait")  # until a file is there, or the worker is stopping
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
WITHIN = 30.0  # seconds: a bound for a loaded machine, reached only by a failure


class Command:
    """A running command; `expect` waits for a line of its output."""

    def __init__(self, arguments: list[str], folder: Path, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "scheduler.cli", *arguments],
            cwd=folder,
            env=os.environ | {"PYTHONWARNINGS": "error"} | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._new: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self._new.put(line)
        self._new.put(None)

    @property
    def output(self) -> str:
        return "".join(self.lines)

    def expect(self, pattern: str, times: int = 1) -> list[re.Match[str]]:
        """The first matches of so many lines, also among those read before."""
        while len(found := [match for line in self.lines if (match := re.search(pattern, line))]) < times:
            try:
                line = self._new.get(timeout=WITHIN)
            except queue.Empty:
                pytest.fail(f"no line like {pattern!r} within {WITHIN} s in:\n{self.output}")
            if line is None:
                self._new.put(None)
                pytest.fail(f"ended without a line like {pattern!r}:\n{self.output}")
            self.lines.append(line)
        return found

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def ended(self) -> int:
        """The exit status, once everything was read."""
        status = self.process.wait(WITHIN)
        self._reader.join(WITHIN)
        while (line := self._new.get(timeout=WITHIN)) is not None:
            self.lines.append(line)
        self._new.put(None)
        return status

    def kill(self) -> None:
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(1.0)
            self.process.kill()
        self.process.wait(WITHIN)
        self._reader.join(WITHIN)
        self.process.stdout.close()


class Application:
    """A folder with app.py, whose backend is an SQLite file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "app.py").write_text(APPLICATION)
        self.backend = SqliteBackend(folder / "jobs.db")
        self.producer = Producer(self.backend)
        self.commands: list[Command] = []

    def start(self, *arguments: str, **environment: str) -> Command:
        command = Command(["worker", *arguments], self.folder, environment)
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


@pytest.fixture
def ask() -> Callable[[str], tuple[int, str]]:
    """Status and body of a GET."""

    def get(url: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(url, timeout=WITHIN) as answer:  # noqa: S310 - our own server
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    return get


@pytest.fixture
def wait_for() -> Callable[[Callable[[], object]], None]:
    """Wait until a condition that no event tells of holds."""
    never = threading.Event()

    def wait(condition: Callable[[], object]) -> None:
        for _ in range(int(WITHIN / 0.02)):
            if condition():
                return
            never.wait(0.02)
        pytest.fail("the condition did not come true in time")

    return wait
