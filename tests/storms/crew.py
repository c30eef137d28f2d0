"""The processes of a storm: producers and workers that are killed, paused and started again."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from storms.roles import until

ROLES = Path(__file__).with_name("roles.py")


def lines(folder: Path, kind: str) -> list[str]:
    """All lines of a kind, of all processes, without those that a kill cut short."""
    found: list[str] = []
    for path in folder.glob(f"*.{kind}"):
        found += path.read_text().rpartition("\n")[0].split("\n")
    return [line for line in found if line]


class Crew:
    """Used by one thread. `close` kills all processes that are left."""

    def __init__(self, url: str, queue: str, folder: Path, seed: int) -> None:
        self._place = (url, queue, str(folder))
        self._draw = random.Random(seed)
        self._numbers = iter(range(1_000_000))
        self.producers: list[subprocess.Popen[bytes]] = []
        self.workers: list[subprocess.Popen[bytes]] = []
        self.kills = 0

    def add_producer(self, count: int = 0) -> None:
        """Start a producer of *count* jobs."""
        self.producers.append(self._start("produce", f"producer{next(self._numbers)}", str(count)))

    def add_worker(self) -> None:
        """Start a worker."""
        self.workers.append(self._start("work", f"worker{next(self._numbers)}"))

    def wait_until_busy(self, timeout: float) -> None:
        """Return when each process has recorded something."""
        folder = Path(self._place[2])
        wanted = len(self.producers) + len(self.workers)

        def is_busy() -> bool:
            files = [path for kind in ("acknowledged", "begun") for path in folder.glob(f"*.{kind}")]
            return sum(path.stat().st_size > 0 for path in files) >= wanted

        until(is_busy, timeout, "the processes do not start to work")

    def kill_a_worker(self) -> None:
        """Kill a worker and start another one."""
        victim = self.workers.pop(self._draw.randrange(len(self.workers)))
        victim.kill()
        victim.wait()
        self.kills += 1
        self.add_worker()

    @contextmanager
    def paused_producer(self) -> Iterator[None]:
        """Suspend a producer meanwhile: it resumes with the versions that it has read."""
        chosen = self._draw.choice(self.producers)
        chosen.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            chosen.send_signal(signal.SIGCONT)

    def finish(self, crew: list[subprocess.Popen[bytes]], timeout: float) -> None:
        """End the processes by SIGTERM, and check their exit status."""
        for one in crew:
            one.send_signal(signal.SIGTERM)
        for one in crew:
            # A process that has only just started has no signal handler yet.
            if one.wait(timeout) not in (0, -signal.SIGTERM):
                raise RuntimeError(f"a process ended with {one.returncode}")
        crew.clear()

    def close(self) -> None:
        """Kill the processes that are left."""
        for one in (*self.producers, *self.workers):
            one.send_signal(signal.SIGCONT)
            one.kill()
            one.wait()

    def _start(self, role: str, name: str, *more: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, ROLES, role, *self._place, name, *more])
