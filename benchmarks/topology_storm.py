"""
Versions of a queue promoted and completed while 4 processes enqueue and 3 work, of which one is killed all the time.

--size is the number of rounds of a repeat; each makes a version of 1 to 16 partitions active, and in the end all but
the last are completed. Producers believe what they once knew of the versions, and are paused at any point. A job that
was acknowledged and never begun, or a version that cannot be completed, ends the benchmark with an error.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.benchmark_store import BenchmarkStore
from benchmarks.command import main
from benchmarks.measure import MILLISECONDS, Measure
from benchmarks.storming import Crew, lines, until_answered
from scheduler.abilities import TopologyAdmin
from scheduler.backend import Backend
from scheduler.errors import TopologyError
from scheduler.states import LIVE, JobState

PRODUCERS, WORKERS = 4, 3
AT_ONCE = 3  # versions that may drain at the same time
WAIT_TIMEOUT = 180.0  # seconds for what takes a few, on a loaded machine


class Outcome(NamedTuple):
    """What happened in a storm. lost: acknowledged and never begun."""

    rounds: int
    acknowledged: int
    lost: int
    refusals: int
    kills: int
    seconds: float


def measures(bench: BenchmarkStore) -> Iterator[Measure]:
    """Nothing where the store has no versions, or lives in one process."""
    if isinstance(bench.backend, TopologyAdmin) and not bench.backend.in_process:
        yield Measure(name="topology_storm_round", unit=MILLISECONDS, run=partial(run, bench))


def run(bench: BenchmarkStore) -> float:
    """Seconds a round."""
    outcome = storm(bench.backend, bench.url, bench.new_queue(), rounds=bench.size)
    print(outcome, file=sys.stderr)
    if outcome.lost:
        raise RuntimeError(f"{outcome.lost} of {outcome.acknowledged} jobs were lost")
    return outcome.seconds / outcome.rounds


def storm(backend: Backend, url: str, queue: str, *, rounds: int, seed: int = 1) -> Outcome:
    """One storm; answers when every version but the last has been completed and every job has run."""
    assert isinstance(backend, TopologyAdmin)  # noqa: S101 - for the type checker: `measures` has asked
    draw = random.Random(seed)
    start = time.perf_counter()
    refusals = 0
    with tempfile.TemporaryDirectory() as folder, closing(Crew(url, queue, Path(folder), seed)) as crew:
        for _ in range(PRODUCERS):
            crew.add_producer()
        for _ in range(WORKERS):
            crew.add_worker()
        crew.wait_until_busy(WAIT_TIMEOUT)
        first = backend.topology(queue).active.version
        for version in range(first + 1, first + 1 + rounds):
            with crew.paused_producer():
                until_answered(partial(backend.promote_queue_version, queue, version, draw.randint(1, 16)))
                refusals += complete(backend, queue, AT_ONCE, time.monotonic() + 1.0)
            crew.kill_a_worker()
            refusals += complete(backend, queue, AT_ONCE, time.monotonic() + WAIT_TIMEOUT)
        crew.finish(crew.producers, WAIT_TIMEOUT)
        _wait_until_empty(backend, queue)
        refusals += complete(backend, queue, 0, time.monotonic() + WAIT_TIMEOUT)
        left = len(backend.topology(queue).draining)
        crew.finish(crew.workers, WAIT_TIMEOUT)
        acknowledged, begun = set(lines(Path(folder), "acknowledged")), set(lines(Path(folder), "begun"))
    if left:
        raise RuntimeError(f"{left} versions could not be completed")
    seconds = time.perf_counter() - start
    return Outcome(rounds, len(acknowledged), len(acknowledged - begun), refusals, crew.kills, seconds)


def complete(backend: Backend, queue: str, most: int, deadline: float) -> int:
    """Complete draining versions until at most *most* are left, or it is too late; answers how often it was refused."""
    assert isinstance(backend, TopologyAdmin)  # noqa: S101 - as above
    refusals = 0
    while len(draining := backend.topology(queue).draining) > most and time.monotonic() < deadline:
        for version in draining:
            try:
                until_answered(partial(backend.complete_draining_version, queue, version.version))
            except TopologyError as refusal:
                if not refusal.counts or not set(refusal.counts) <= set(LIVE):
                    raise
                refusals += 1
        time.sleep(0.05)
    return refusals


def _wait_until_empty(backend: Backend, queue: str) -> None:
    deadline = time.monotonic() + WAIT_TIMEOUT
    while left := sum(row.counts[JobState(state)] for row in backend.stats([queue]) for state in LIVE):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{left} jobs are not done")
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main(__doc__, measures, size=50))
