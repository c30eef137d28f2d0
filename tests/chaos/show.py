"""Runs producers, crews and faults by the clock, then lets everything heal, drain and be proved."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from chaos.arena import Arena
from chaos.jobs import QUEUES
from chaos.plan import Fault, draw
from chaos.proofs import prove
from scheduler.backend import Backend
from scheduler.errors import BackendError
from scheduler.plugins import backend_from_url
from scheduler.states import TERMINAL, JobState
from servers.processes import ending_with_us

CREWS, OFFICES = 3, 2
RATE = 25.0  # jobs a second of one office: together some two thirds of what the crews' threads can do
_DRAIN_WITHIN = 14.0  # seconds after the last fault
_TESTS = Path(__file__).parents[1]


class Cast:
    """The processes of a run. A crew that dies is replaced at once, under a new name in the ledger."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._folder = folder
        self._generation: Counter[int] = Counter()
        self.crews: list[subprocess.Popen[bytes]] = [self._crew(number) for number in range(CREWS)]
        self.offices = [self._start("office", f"office-{number}", str(RATE)) for number in range(OFFICES)]

    def _start(self, room: str, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"chaos.{room}", self._url, str(self._folder), name, *arguments]
        with (self._folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(ending_with_us(command), cwd=_TESTS, stdout=log, stderr=log)

    def _crew(self, number: int) -> subprocess.Popen[bytes]:
        self._generation[number] += 1
        return self._start("crew", f"crew-{number}.{self._generation[number]}")

    def replace_dead(self) -> None:
        """Fill the places of crews that have ended."""
        for number, crew in enumerate(self.crews):
            if crew.poll() is not None:
                self.crews[number] = self._crew(number)

    def hurt(self, fault: Fault) -> None:
        """Do a fault that is a process's."""
        crew = self.crews[fault.target]
        if fault.kind == "kill crew":
            crew.kill()
        elif fault.kind == "stop crew":
            crew.terminate()
        elif fault.kind == "jump clock":
            crew.send_signal(signal.SIGUSR2)
        elif fault.kind == "pause crew":
            crew.send_signal(signal.SIGSTOP)
            wake = threading.Timer(fault.seconds, crew.send_signal, [signal.SIGCONT])
            wake.daemon = True
            wake.start()

    def end(self, processes: Sequence[subprocess.Popen[bytes]], within: float) -> list[str]:
        """Ask *processes* to end, wait, and tell of those that had to be killed."""
        for process in processes:
            process.send_signal(signal.SIGCONT)
            process.terminate()
        deadline = time.monotonic() + within
        late = []
        for process in processes:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                late.append(f"process {process.args!r} did not end within {within:g} s")
        return late

    def kill(self) -> None:
        """Leave nothing behind, whatever happened."""
        for process in (*self.crews, *self.offices):
            with suppress(ProcessLookupError):
                process.kill()
            process.wait()


def run(arena: Arena, minutes: float, seed: int) -> int:
    """Run once, print what happened and return the number of proofs that failed."""
    plan = draw(seed, minutes, arena.kinds, CREWS)
    print(f"seed {seed}: {len(plan)} faults in {minutes:g} minutes on {arena.quiet_url.partition('?')[0]}", flush=True)
    with tempfile.TemporaryDirectory(prefix="chaos-") as name:
        folder = Path(name)
        backend = backend_from_url(arena.quiet_url)
        cast = Cast(arena.url, folder)
        wrong: list[str] = []
        try:
            _perform(plan, minutes, arena, cast)
            arena.heal()
            wrong += cast.end(cast.offices, within=10.0)
            _drain(backend, cast)
            wrong += cast.end(cast.crews, within=8.0)
            wrong += prove(folder, backend)
            _tell(backend, plan)
        finally:
            cast.kill()
            if wrong:
                _keep(folder)
        backend.close()
    for line in wrong[:50]:
        print(f"WRONG: {line}")
    print(f"{len(plan)} faults, {len(wrong)} proofs failed", flush=True)
    return len(wrong)


def _perform(plan: list[Fault], minutes: float, arena: Arena, cast: Cast) -> None:
    start = time.monotonic()
    clock = threading.Event()
    for fault in plan:
        while (left := start + fault.at - time.monotonic()) > 0.0:
            clock.wait(min(left, 0.2))
            cast.replace_dead()
            arena.tick()
        print(fault, flush=True)
        if fault.kind in ("kill crew", "stop crew", "pause crew", "jump clock"):
            cast.hurt(fault)
        else:
            arena.begin(fault)
    while (left := start + minutes * 60.0 - time.monotonic()) > 0.0:
        clock.wait(min(left, 0.2))
        cast.replace_dead()
        arena.tick()


def _drain(backend: Backend, cast: Cast) -> None:
    """Wait until nothing is left to be done, or the time is up: then the proofs tell what is left."""
    deadline = time.monotonic() + _DRAIN_WITHIN
    clock = threading.Event()
    while time.monotonic() < deadline:
        cast.replace_dead()
        with suppress(BackendError):
            stats = backend.stats(QUEUES)
            if not any(row.counts[state] for row in stats for state in set(JobState) - TERMINAL):
                return
        clock.wait(0.2)


def _tell(backend: Backend, plan: list[Fault]) -> None:
    counts: Counter[str] = Counter()
    for row in backend.stats(QUEUES):
        counts.update({state.value: count for state, count in row.counts.items()})
    print("jobs:   " + ", ".join(f"{count} {state}" for state, count in counts.items() if count))
    print(
        "faults: " + ", ".join(f"{count} {kind}" for kind, count in sorted(Counter(one.kind for one in plan).items()))
    )


def _keep(folder: Path) -> None:
    kept = Path(tempfile.gettempdir()) / f"chaos-evidence-{os.getpid()}"
    with suppress(OSError):
        folder.rename(kept)
        folder.mkdir()  # for the clean-up to find
        print(f"The ledgers are kept in {kept}")
