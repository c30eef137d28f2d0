"""Lateness of delayed jobs: from run_at to the start of the handler on an idle worker."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

from benchmarks.benchmark_store import TYPE, BenchmarkStore
from benchmarks.command import main
from benchmarks.measure import MILLISECONDS, Measure, quantiles
from benchmarks.watching import Watcher
from scheduler.jobs import Job, NewJob

AHEAD = 0.5  # seconds until the first job can be due
APART = 0.01  # seconds between two due times, on average


def measures(bench: BenchmarkStore) -> Iterator[Measure]:
    """Yield the median and the 99th percentile."""
    yield Measure(name="lateness", unit=MILLISECONDS, run=partial(late, bench))


def late(bench: BenchmarkStore) -> dict[str, float]:
    """Enqueue jobs with random due times, and return the quantiles of their lateness."""
    queue = bench.new_queue()
    with Watcher(bench.backend, queue, _nanoseconds_late) as watcher:
        first = datetime.now(UTC) + timedelta(seconds=AHEAD)
        moments = [first + timedelta(seconds=random.uniform(0, bench.size * APART)) for _ in range(bench.size)]
        bench.backend.enqueue([NewJob(type=TYPE, queue=queue, run_at=moment) for moment in moments])
        return quantiles(watcher.seconds(bench.size))


def _nanoseconds_late(job: Job) -> int:
    return (datetime.now(UTC) - job.run_at) // timedelta(microseconds=1) * 1_000


if __name__ == "__main__":
    sys.exit(main(__doc__, measures, size=200))
