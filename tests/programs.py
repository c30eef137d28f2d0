"""Programs that tests start as a person would: their output can be awaited, and they can be signalled and ended."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import signal
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from servers.processes import ending_with_us

WITHIN = 60.0  # seconds: a bound for a loaded machine, reached only by a failure


class Program:
    """A running program, named by its absolute path; `expect` waits for a line of its output."""

    def __init__(self, command: Sequence[str], folder: Path, **environment: str) -> None:
        self.process = subprocess.Popen(
            ending_with_us(command),  # pytest-timeout or a kill may end us before any test has cleaned up
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

    def expect_after(self, cause: Callable[[], object], pattern: str) -> None:
        """Expect a line after a deed that the program may overlook: done again after each 5 s without a line."""
        for _ in range(int(WITHIN / 5.0)):
            cause()
            with contextlib.suppress(queue.Empty):
                while line := self._new.get(timeout=5.0):
                    self.lines.append(line)
                    if re.search(pattern, line):
                        return
                self._new.put(None)
                break
        pytest.fail(f"no line like {pattern!r} within {WITHIN} s in:\n{self.output}")

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def ended(self) -> int:
        """Wait for the end and return the exit status, after reading all output."""
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


def wait_until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds for which there is no event."""
    never = threading.Event()
    for _ in range(int(WITHIN / 0.02)):
        if condition():
            return
        never.wait(0.02)
    pytest.fail("the condition did not come true in time")


def ask(url: str, **form: str) -> tuple[int, str]:
    """Send a GET, or a POST if there is a form, and return the status and the body."""
    data = urllib.parse.urlencode(form).encode() if form else None
    try:
        with urllib.request.urlopen(url, data, timeout=WITHIN) as answer:  # noqa: S310 - our own server
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def ask_json(url: str, **form: str) -> tuple[int, dict[str, object]]:
    status, body = ask(url, **form)
    return status, json.loads(body)
