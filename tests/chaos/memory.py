"""Chaos in one process: the memory backend, workers in threads, calls that fail before and after their effect."""

from __future__ import annotations

import logging
import random
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chaos.crew import Crew, recorded, sample
from chaos.jobs import QUEUES
from chaos.ledger import Ledger
from chaos.office import Office
from chaos.plan import Fault, draw
from chaos.proofs import prove
from scheduler.errors import BackendUnavailable
from scheduler.producer import Producer
from scheduler.queues import Retention
from scheduler.states import TERMINAL, JobState
from scheduler_backends.memory import MemoryBackend

CREWS = 3
RATE = 50.0  # jobs a second: some two thirds of what the crews' threads can do
_METHODS = (
    "enqueue", "promote_due", "lease", "renew", "complete", "retry", "bury", "release", "recover_expired", "trim",
)  # fmt: skip
_KINDS = ("unsteady", "away", "stop crew", "repartition", "complete version")
_DRAIN_WITHIN = 14.0  # seconds


class Weather:
    """How calls fare now. Guarded by the interpreter: single reads and writes of plain values."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.failing = 0.0  # the share of calls that fail
        self.until = 0.0  # by time.monotonic()

    def unsteady(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """*method*, which fails before or after its effect, as the weather is."""

        def call(*arguments: object, **named: object) -> object:
            bad = time.monotonic() < self.until and self.chance.random() < self.failing
            after = self.chance.random() < 0.5
            if bad and not after:
                raise BackendUnavailable("chaos: before the effect")
            answer = method(*arguments, **named)
            if bad:
                raise BackendUnavailable("chaos: after the effect, the answer is lost")
            return answer

        return call


def run(minutes: float, seed: int) -> int:
    """Run once and return the number of proofs that failed."""
    logging.getLogger("scheduler").setLevel(logging.CRITICAL)  # the ledger says it better
    plan = draw(seed, minutes, _KINDS, CREWS)
    print(f"seed {seed}: {len(plan)} faults in {minutes:g} minutes in memory", flush=True)
    quiet = MemoryBackend(partitions=4, retention=Retention(succeeded=864_000))
    weather = Weather(seed)
    with tempfile.TemporaryDirectory(prefix="chaos-") as name:
        folder = Path(name)
        stage = _Stage(quiet, weather, folder)
        start = time.monotonic()
        clock = threading.Event()
        for fault in plan:
            clock.wait(max(0.0, start + fault.at - time.monotonic()))
            print(fault, flush=True)
            stage.hurt(fault)
        clock.wait(max(0.0, start + minutes * 60.0 - time.monotonic()))
        weather.until = 0.0
        stage.close()
        wrong = prove(folder, quiet)
    counts = {state.value: sum(row.counts[state] for row in quiet.stats()) for state in JobState}
    print("jobs:   " + ", ".join(f"{count} {state}" for state, count in counts.items() if count))
    for line in wrong[:50]:
        print(f"WRONG: {line}")
    print(f"{len(plan)} faults, {len(wrong)} proofs failed", flush=True)
    return len(wrong)


class _Stage:
    """The threads of a run: one office, some crews that are stopped and replaced, samples of the process."""

    def __init__(self, quiet: MemoryBackend, weather: Weather, folder: Path) -> None:
        self._quiet = quiet
        self._folder = folder
        self._weather = weather
        self._generation = 0
        self._crews = [self._crew() for _ in range(CREWS)]
        self._office = Office(Producer(self._view()), Ledger(folder, "office"), "office", RATE)
        self._office_thread = threading.Thread(target=self._office.run)
        self._office_thread.start()
        self._ended = threading.Event()
        self._sampler = threading.Thread(target=self._sample)
        self._sampler.start()

    def _view(self) -> MemoryBackend:
        """The one store through an object of its own, whose calls the weather spoils."""
        view = object.__new__(MemoryBackend)
        view.__dict__.update(self._quiet.__dict__)
        for method in _METHODS:
            setattr(view, method, self._weather.unsteady(getattr(self._quiet, method)))
        return view

    def _crew(self) -> tuple[Crew, Ledger]:
        self._generation += 1
        name = f"crew-{self._generation}"
        ledger = Ledger(self._folder, name)
        crew = Crew(recorded(self._view(), ledger), ledger, name)
        crew.worker.start()
        return crew, ledger

    def _sample(self) -> None:
        ledger = Ledger(self._folder, "process")
        while not self._ended.wait(1.0):
            sample(ledger)

    def _stop(self, number: int) -> None:
        crew, ledger = self._crews[number]
        if crew.worker.stop(5.0):
            ledger.write("bye", settled=0, released=0, abandoned=0)

    def hurt(self, fault: Fault) -> None:
        """Do a fault."""
        if fault.kind == "stop crew":
            self._stop(fault.target)
            self._crews[fault.target] = self._crew()
        elif fault.kind in ("unsteady", "away"):
            self._weather.failing = 0.3 if fault.kind == "unsteady" else 1.0
            self._weather.until = time.monotonic() + fault.seconds
        else:
            self._repartition(fault)

    def _repartition(self, fault: Fault) -> None:
        queue = self._weather.chance.choice(QUEUES)
        topology = self._quiet.topology(queue)
        if fault.kind == "repartition":
            highest = max(version.version for version in topology.versions)
            self._quiet.promote_queue_version(queue, highest + 1, self._weather.chance.randint(1, 16))
            return
        for version in topology.draining:
            counts = next(row for row in self._quiet.stats([queue]) if row.version == version.version).counts
            if not any(counts[state] for state in set(JobState) - TERMINAL):
                self._quiet.complete_draining_version(queue, version.version, finished="move")

    def close(self) -> None:
        """Let everything drain, and end all threads."""
        self._office.stopping.set()
        self._office_thread.join()
        deadline = time.monotonic() + _DRAIN_WITHIN
        while time.monotonic() < deadline and any(
            row.counts[state] for row in self._quiet.stats() for state in set(JobState) - TERMINAL
        ):
            self._ended.wait(0.1)
        for number in range(CREWS):
            self._stop(number)
        self._ended.set()
        self._sampler.join()
