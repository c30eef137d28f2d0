"""Cost of enqueueing one job: in the store only, with a job that is already built, and in the call of a producer."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from functools import partial

from benchmarks.benchmark_store import TYPE, BenchmarkStore, empty
from benchmarks.command import main
from benchmarks.measure import MICROSECONDS, Measure
from scheduler import Producer


def measures(bench: BenchmarkStore) -> Iterator[Measure]:
    """Yield the call of the store only, and the whole call of a producer."""
    baseline = bench.baseline(redis="ping", postgres="insert_commit", sqlite="insert_commit")
    yield Measure(name="enqueue_single", unit=MICROSECONDS, run=partial(bare, bench), baseline=baseline)
    yield Measure(name="producer_enqueue", unit=MICROSECONDS, run=partial(by_producer, bench), baseline=baseline)


def bare(bench: BenchmarkStore) -> float:
    """Return seconds per job."""
    queue = bench.new_queue()
    jobs = bench.new_jobs(queue, bench.size)
    start = time.perf_counter()
    for job in jobs:
        bench.backend.enqueue([job])
    seconds = time.perf_counter() - start
    empty(bench.backend, queue)
    return seconds / len(jobs)


def by_producer(bench: BenchmarkStore) -> float:
    """Return seconds per job."""
    queue = bench.new_queue()
    producer = Producer(bench.backend)
    payload = {"to": "someone@example.org", "subject": "a letter for you"}
    start = time.perf_counter()
    for _ in range(bench.size):
        producer.enqueue(TYPE, payload, queue=queue)
    seconds = time.perf_counter() - start
    empty(bench.backend, queue)
    return seconds / bench.size


if __name__ == "__main__":
    sys.exit(main(__doc__, measures, size=2_000))
