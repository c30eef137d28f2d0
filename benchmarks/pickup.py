"""Time from enqueueing to the start of the handler on an idle worker: within one process, and across two."""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Iterator
from functools import partial

from benchmarks.benchmark_store import TYPE, BenchmarkStore
from benchmarks.command import main
from benchmarks.measure import MILLISECONDS, Measure, quantiles
from benchmarks.watching import Watcher
from scheduler.backend import Backend
from scheduler.jobs import NewJob
from scheduler.plugins import backend_from_url

PAUSE = 0.01  # seconds between two jobs, after which the worker is idle again


def measures(bench: BenchmarkStore) -> Iterator[Measure]:
    """Yield the medians and the 99th percentiles."""
    double = "select_1 + insert_commit"
    baseline = bench.baseline(redis="blpop", postgres=double, sqlite=double)
    yield Measure(name="pickup", unit=MILLISECONDS, run=partial(from_here, bench), baseline=baseline)
    if bench.store != "memory":
        yield Measure(name="pickup_across", unit=MILLISECONDS, run=partial(from_elsewhere, bench), baseline=baseline)


def from_here(bench: BenchmarkStore) -> dict[str, float]:
    """Return the quantiles with a producer that shares the worker's backend."""
    queue = bench.new_queue()
    with Watcher(bench.backend, queue, lambda job: time.time_ns() - int(job.payload)) as watcher:
        produce(bench.backend, queue, bench.size)
        return quantiles(watcher.seconds(bench.size))


def from_elsewhere(bench: BenchmarkStore) -> dict[str, float]:
    """Return the quantiles with a producer in another process."""
    queue = bench.new_queue()
    with Watcher(bench.backend, queue, lambda job: time.time_ns() - int(job.payload)) as watcher:
        arguments = (bench.url, queue, bench.size)
        process = multiprocessing.get_context("spawn").Process(target=_produce_by_url, args=arguments)
        process.start()
        try:
            return quantiles(watcher.seconds(bench.size))
        finally:
            process.join(30)


def produce(backend: Backend, queue: str, count: int) -> None:
    """Enqueue *count* jobs. The payload of each is the time of its call."""
    for _ in range(count):
        time.sleep(PAUSE)
        backend.enqueue([NewJob(type=TYPE, queue=queue, payload=b"%d" % time.time_ns())])


def _produce_by_url(url: str, queue: str, count: int) -> None:
    backend = backend_from_url(url)
    backend.ping()
    time.sleep(0.1)  # so that the import does not disturb the first job
    produce(backend, queue, count)
    backend.close()


if __name__ == "__main__":
    sys.exit(main(__doc__, measures, size=200))
