"""
Jobs per second that a worker leases, runs and completes. Enqueueing them is not measured.

worker_end_to_end: concurrency 8, batches of --batch, and a queue_buffer of a quarter of that.
worker_end_to_end_default: the default configuration.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from functools import partial

from benchmarks.benchmark_store import TYPE, BenchmarkStore
from benchmarks.command import main
from benchmarks.measure import JOBS_PER_SECOND, Measure
from scheduler import JobContext, Worker, WorkerConfig
from scheduler.backend import Backend
from scheduler.jobs import Job
from scheduler.metrics import Metrics

TIMEOUT = 300.0  # seconds; reached only in a failure


class Finish(Metrics):
    """Metrics that set an event when *count* jobs are completed."""

    def __init__(self, count: int) -> None:
        self._left = count  # only the pump's thread uses it
        self.reached = threading.Event()

    def settled(self, operation: str, count: int) -> None:
        """Count the completed jobs of one call."""
        self._left -= count if operation == "complete" else 0
        if self._left <= 0:
            self.reached.set()


def measures(bench: BenchmarkStore) -> Iterator[Measure]:
    """Yield the throughput of a tuned worker, and with the default configuration."""
    baseline = bench.baseline(memory="submit", redis="F1", postgres="insert_commit", sqlite="insert_commit")
    for name, config in {"worker_end_to_end": tuned(bench.batch), "worker_end_to_end_default": WorkerConfig()}.items():
        run = partial(drain_on, bench.backend, bench, config)
        yield Measure(name=name, unit=JOBS_PER_SECOND, run=run, baseline=baseline)


def tuned(batch: int) -> WorkerConfig:
    """Return a configuration for handlers that do nothing."""
    return WorkerConfig(concurrency=8, batch_size=batch, queue_buffer=max(1, batch // 4))


def drain_on(backend: Backend, bench: BenchmarkStore, config: WorkerConfig) -> float:
    """Return seconds per job, from the worker's start until the store has recorded the last outcome."""
    queue = bench.new_queue()
    bench.fill(backend, queue, bench.size)
    finish = Finish(bench.size)
    worker = Worker(backend, config, metrics=finish).with_config(queues=(queue,))
    worker.handle(TYPE, nothing)
    start = time.perf_counter()
    with worker:
        if not finish.reached.wait(TIMEOUT):
            raise RuntimeError(f"not all jobs were completed in {TIMEOUT:g} s")
        seconds = time.perf_counter() - start
    bench.forget(queue)
    return seconds / bench.size


def nothing(job: Job, ctx: JobContext) -> None:
    """Do nothing."""


if __name__ == "__main__":
    sys.exit(main(__doc__, measures, size=20_000))
