"""A place for one test's jobs, and the real worker processes that work there."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from programs import Program, wait_until
from scheduler import Job, JobState, Producer, ProducerConfig, backend_from_url

APPLICATIONS = Path(__file__).parent / "applications"
QUEUE = "default"


class Line(NamedTuple):
    """What a handler wrote down. at: time.monotonic(), which all processes of a machine share."""

    event: str
    id: str
    type: str
    attempt: int
    process: int
    at: float


class Place:
    """
    An empty store, known by its URL, and programs that use it. Finished jobs are kept.

    The applications' handlers write into one ledger; a line is one write, so that a killed process leaves whole lines.
    """

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.backend = backend_from_url(url)
        self.producer = Producer(self.backend, ProducerConfig(default_max_retries=0))
        self._ledger = folder / "ledger"
        self._ledger.touch()
        self._programs: list[Program] = []

    # ---- programs

    def python(self, *arguments: str, folder: Path = APPLICATIONS, url: str | None = None, **more: str) -> Program:
        """Start a Python that knows where the jobs and the ledger are."""
        return self.program(sys.executable, *arguments, folder=folder, url=url, **more)

    def program(self, *command: str, folder: Path = APPLICATIONS, url: str | None = None, **more: str) -> Program:
        """Start any program, which finds the jobs and the ledger as `python`'s do."""
        environment = {"JOBS": url or self.url, "LEDGER": str(self._ledger), "PYTHONUNBUFFERED": "1", **more}
        program = Program(command, folder, **environment)
        self._programs.append(program)
        return program

    def worker(self, target: str, *arguments: str, **options: Any) -> Program:
        """Start `scheduler worker TARGET`, the target being one of the applications; options as for `python`."""
        return self.python("-m", "scheduler.cli", "worker", target, *arguments, **options)

    # ---- jobs

    def add(self, type: str, payload: object = None, **fields: object) -> str:
        """Enqueue a job, without retries unless *fields* say otherwise, and answer its id."""
        return self.producer.enqueue(type, payload, **fields).job.id  # type: ignore[arg-type]  # by name

    def job(self, id: str) -> Job:
        return self.backend.get(QUEUE, [id])[id]

    def states(self, ids: Sequence[str]) -> Counter[str]:
        found = self.backend.get(QUEUE, ids)
        return Counter(found[id].state.value if id in found else "gone" for id in ids)

    def until_finished(self, *ids: str) -> None:
        terminal = {JobState.SUCCEEDED, JobState.DEAD}
        wait_until(lambda: all(job.state in terminal for job in self.backend.get(QUEUE, ids).values()))

    # ---- the ledger

    def lines(self, event: str = "began") -> list[Line]:
        """What the handlers wrote of one kind of event, in its order."""
        lines = []
        for text in self._ledger.read_text().splitlines():
            name, id, type, attempt, process, at = text.split()
            if name == event:
                lines.append(Line(name, id, type, int(attempt), int(process), float(at)))
        return lines

    def runs(self, event: str = "began") -> Counter[str]:
        """How often each job's handler began."""
        return Counter(line.id for line in self.lines(event))

    def until_line(self, event: str, id: str, times: int = 1) -> Line:
        """Wait for a handler's lines about this job and return the last of so many."""
        wait_until(lambda: self.runs(event)[id] >= times)
        return [line for line in self.lines(event) if line.id == id][times - 1]

    def close(self) -> None:
        for program in self._programs:
            program.kill()
        self.backend.close()


def now() -> float:
    """The clock of the ledger's lines."""
    return time.monotonic()


def url_on_redis(server: str, prefix: str, **options: object) -> str:
    return _with(server, {"prefix": prefix, "partitions": 2, "timeout": 1, **options})


def url_on_postgres(server: str, **options: object) -> str:
    given = {"migrate": "true", "prefix": f"t{os.urandom(4).hex()}_", "timeout": 2, "pool_timeout": 2, **options}
    return _with(server, given)


def url_on_sqlite(path: Path, **options: object) -> str:
    return _with(f"sqlite:///{path}", options)


def _with(url: str, options: dict[str, object]) -> str:
    text = "&".join(f"{name}={value}" for name, value in {"retain_succeeded": 3_600, **options}.items())
    return f"{url}{'&' if '?' in url else '?'}{text}"
