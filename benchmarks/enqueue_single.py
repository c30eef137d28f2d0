"""Enqueueing one job at a time: by the bare store, the job built before, and by a producer, from a dictionary."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from functools import partial

from benchmarks.command import main
from benchmarks.measure import MICROSECONDS, Measure
from benchmarks.stage import TYPE, Stage, empty
from scheduler import Producer


def measures(stage: Stage) -> Iterator[Measure]:
    """The store alone, and all that a caller pays."""
    floor = stage.floor(redis="ping", postgres="insert_commit", sqlite="insert_commit")
    yield Measure(name="enqueue_single", unit=MICROSECONDS, run=partial(bare, stage), floor=floor)
    yield Measure(name="producer_enqueue", unit=MICROSECONDS, run=partial(by_producer, stage), floor=floor)


def bare(stage: Stage) -> float:
    """Seconds a job."""
    queue = stage.new_queue()
    jobs = stage.new_jobs(queue, stage.size)
    start = time.perf_counter()
    for job in jobs:
        stage.backend.enqueue([job])
    seconds = time.perf_counter() - start
    empty(stage.backend, queue)
    return seconds / len(jobs)


def by_producer(stage: Stage) -> float:
    """Seconds a job."""
    queue = stage.new_queue()
    producer = Producer(stage.backend)
    payload = {"to": "someone@example.org", "subject": "a letter for you"}
    start = time.perf_counter()
    for _ in range(stage.size):
        producer.enqueue(TYPE, payload, queue=queue)
    seconds = time.perf_counter() - start
    empty(stage.backend, queue)
    return seconds / stage.size


if __name__ == "__main__":
    sys.exit(main(__doc__, measures, size=2_000))
