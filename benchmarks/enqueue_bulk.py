"""Cost of enqueueing many jobs: 64 per call of the store, and all of --size in one call of a producer."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from functools import partial

from benchmarks.benchmark_store import BenchmarkStore, empty
from benchmarks.command import main
from benchmarks.measure import JOBS_PER_SECOND, MICROSECONDS, Measure
from scheduler import Producer

BATCH = 64


def measures(bench: BenchmarkStore) -> Iterator[Measure]:
    """Yield a small batch, dominated by the round trip, and a large one, dominated by the store."""
    yield Measure(
        name=f"enqueue_{BATCH}",
        unit=MICROSECONDS,
        run=partial(in_batches, bench),
        baseline=bench.baseline(redis="lpush", sqlite="insert_commit", postgres="insert_commit"),
    )
    yield Measure(
        name=f"enqueue_many_{bench.size}",
        unit=JOBS_PER_SECOND,
        run=partial(at_once, bench),
        baseline=bench.baseline(redis="lpush", sqlite="insert_commit", postgres="copy"),
    )


def in_batches(bench: BenchmarkStore) -> float:
    """Return seconds per job. Building the jobs is not measured."""
    queue = bench.new_queue()
    jobs = bench.new_jobs(queue, bench.size)
    start = time.perf_counter()
    for first in range(0, len(jobs), BATCH):
        bench.backend.enqueue(jobs[first : first + BATCH])
    seconds = time.perf_counter() - start
    empty(bench.backend, queue)
    return seconds / len(jobs)


def at_once(bench: BenchmarkStore) -> float:
    """Return seconds per job. Building the jobs is not measured."""
    queue = bench.new_queue()
    jobs = bench.new_jobs(queue, bench.size)
    producer = Producer(bench.backend)
    start = time.perf_counter()
    producer.enqueue_many(jobs)
    seconds = time.perf_counter() - start
    empty(bench.backend, queue)
    return seconds / len(jobs)


if __name__ == "__main__":
    sys.exit(main(__doc__, measures, size=10_000))
