"""
Versions of a queue promoted and completed while 4 processes enqueue and 3 work, one of which is killed all the time.

Each round makes a version of 1 to 16 partitions active, and in the end all but the last are completed. Producers use
the versions that they once read, and are paused at any point.
"""

from __future__ import annotations

import random
import tempfile
import threading
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

from scheduler.abilities import TopologyAdmin
from scheduler.backend import Backend
from scheduler.errors import TopologyError
from scheduler.states import LIVE, JobState
from storms.crew import Crew, lines
from storms.roles import WAIT_TIMEOUT, until, until_answered

PRODUCERS, WORKERS = 4, 3
AT_ONCE = 3  # versions that may drain at the same time


class Outcome(NamedTuple):
    """The result of a storm. lost: jobs that were acknowledged and never begun."""

    rounds: int
    acknowledged: int
    lost: int
    refusals: int
    kills: int


def storm(backend: Backend, url: str, queue: str, *, rounds: int, seed: int = 1) -> Outcome:
    """Run a storm, and return when every version but the last is completed and every job has run."""
    assert isinstance(backend, TopologyAdmin)
    draw = random.Random(seed)
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
    return Outcome(rounds, len(acknowledged), len(acknowledged - begun), refusals, crew.kills)


def complete(backend: Backend, queue: str, most: int, deadline: float) -> int:
    """Complete draining versions until at most *most* are left or *deadline*; return how often it was refused."""
    assert isinstance(backend, TopologyAdmin)
    refusals = 0
    never = threading.Event()
    while len(draining := backend.topology(queue).draining) > most and time.monotonic() < deadline:
        for version in draining:
            try:
                until_answered(partial(backend.complete_draining_version, queue, version.version))
            except TopologyError as refusal:
                if not refusal.counts or not set(refusal.counts) <= set(LIVE):
                    raise
                refusals += 1
        never.wait(0.05)  # the workers empty them
    return refusals


def _wait_until_empty(backend: Backend, queue: str) -> None:
    def is_empty() -> bool:
        return not any(row.counts[JobState(state)] for row in backend.stats([queue]) for state in LIVE)

    until(is_empty, WAIT_TIMEOUT, "some jobs are not done")
