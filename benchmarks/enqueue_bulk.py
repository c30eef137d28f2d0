"""Enqueueing many jobs: 64 a call by the bare store, and all of --size in one call of a producer."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from functools import partial

from benchmarks.command import main
from benchmarks.measure import JOBS_PER_SECOND, MICROSECONDS, Measure
from benchmarks.stage import Stage, empty
from scheduler import Producer

BATCH = 64


def measures(stage: Stage) -> Iterator[Measure]:
    """A small batch, dear by its round trip, and one that is all the store's."""
    yield Measure(
        name=f"enqueue_{BATCH}",
        unit=MICROSECONDS,
        run=partial(in_batches, stage),
        floor=stage.floor(redis="lpush", sqlite="insert_commit", postgres="insert_commit"),
    )
    yield Measure(
        name=f"enqueue_many_{stage.size}",
        unit=JOBS_PER_SECOND,
        run=partial(at_once, stage),
        floor=stage.floor(redis="lpush", sqlite="insert_commit", postgres="copy"),
    )


def in_batches(stage: Stage) -> float:
    """Seconds a job that was built before."""
    queue = stage.new_queue()
    jobs = stage.new_jobs(queue, stage.size)
    start = time.perf_counter()
    for first in range(0, len(jobs), BATCH):
        stage.backend.enqueue(jobs[first : first + BATCH])
    seconds = time.perf_counter() - start
    empty(stage.backend, queue)
    return seconds / len(jobs)


def at_once(stage: Stage) -> float:
    """Seconds a job that was built before."""
    queue = stage.new_queue()
    jobs = stage.new_jobs(queue, stage.size)
    producer = Producer(stage.backend)
    start = time.perf_counter()
    producer.enqueue_many(jobs)
    seconds = time.perf_counter() - start
    empty(stage.backend, queue)
    return seconds / len(jobs)


if __name__ == "__main__":
    sys.exit(main(__doc__, measures, size=10_000))
