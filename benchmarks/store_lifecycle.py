"""Cost of a job in the store only: enqueue, promote, lease, renew and complete, in batches of 1, 16 and 64."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial

from benchmarks import benchmark_store
from benchmarks.benchmark_store import LEASE, BenchmarkStore
from benchmarks.command import main
from benchmarks.measure import MICROSECONDS, Measure
from scheduler.jobs import NewJob

DELAY = 0.001  # seconds, so that there are jobs to promote


def measures(bench: BenchmarkStore) -> Iterator[Measure]:
    """Yield the cost of all steps together and of each step, in µs per job."""
    for batch in (1, 16, 64):
        yield Measure(name=f"store_lifecycle_{batch}", unit=MICROSECONDS, run=partial(walk, bench, batch))


def walk(bench: BenchmarkStore, batch: int) -> dict[str, float]:
    """Return seconds per job for all steps (suffix "") and for each. All jobs take one step before the next."""
    backend, queue = bench.backend, bench.new_queue()
    count = bench.size
    jobs = bench.new_jobs(queue, count, delay=DELAY)
    marks = [time.perf_counter()]
    for part in _parts(jobs, batch):
        backend.enqueue(part)
    marks.append(time.perf_counter())
    while backend.promote_due([queue], batch).next_due is not None:
        pass  # on memory, the last jobs may become due only now
    marks.append(time.perf_counter())
    held = []
    while leases := benchmark_store.lease(backend, queue, batch):
        held.append(leases)
    marks.append(time.perf_counter())
    for leases in held:
        backend.renew(leases, LEASE)
    marks.append(time.perf_counter())
    for leases in held:
        benchmark_store.complete(backend, leases)
    marks.append(time.perf_counter())
    if sum(map(len, held)) != count:
        raise RuntimeError(f"{sum(map(len, held))} of {count} jobs were leased: the run is invalid")
    steps = ("enqueue", "promote", "lease", "renew", "complete")
    parts = {step: (end - start) / count for step, start, end in zip(steps, marks, marks[1:], strict=False)}
    return {"": sum(parts.values()), **parts}


def _parts(jobs: Sequence[NewJob], size: int) -> Iterator[Sequence[NewJob]]:
    for start in range(0, len(jobs), size):
        yield jobs[start : start + size]


if __name__ == "__main__":
    sys.exit(main(__doc__, measures, size=2_000))
