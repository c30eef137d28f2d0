"""Cost of due jobs in a queue with 200 times as many jobs that are not due. --size: the number of due jobs."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from functools import partial

from benchmarks import benchmark_store
from benchmarks.benchmark_store import PAYLOAD, SLICE, TYPE, BenchmarkStore
from benchmarks.command import main
from benchmarks.measure import JOBS_PER_SECOND, MILLISECONDS, Baseline, Measure
from scheduler.backend import Backend
from scheduler.jobs import NewJob, Priority

NOT_DUE = 200  # jobs for each due job
BATCH = 64


def measures(bench: BenchmarkStore) -> Iterator[Measure]:
    """Yield a cycle of promote, lease and complete, and one lease call. The baseline has no backlog."""
    apart = {} if bench.store == "memory" else {"prefix": "bench_backlog_"}
    full = bench.open(**apart)
    queue = bench.new_queue()
    try:
        _fill(full, queue, bench.size * NOT_DUE)
        empty_store = partial(drain, bench, bench.backend, bench.new_queue())
        yield Measure(
            name="backlog",
            unit={"drain": JOBS_PER_SECOND, "lease": MILLISECONDS},
            run=partial(drain, bench, full, queue),
            baseline=Baseline(name="empty_store", run=empty_store),
        )
    finally:
        benchmark_store.empty(full, queue)
        full.close()


def _fill(backend: Backend, queue: str, count: int) -> None:
    """Enqueue jobs of all priorities, due in one to two hours: a naive lease would read the urgent ones first."""
    for start in range(0, count, SLICE):
        backend.enqueue(
            [
                NewJob(
                    type=TYPE,
                    payload=PAYLOAD,
                    queue=queue,
                    delay=random.uniform(3_600, 7_200),
                    priority=random.choice(list(Priority)),
                )
                for _ in range(min(SLICE, count - start))
            ]
        )


def drain(bench: BenchmarkStore, backend: Backend, queue: str) -> dict[str, float]:
    """Return the seconds per due job, and the seconds per lease call."""
    bench.fill(backend, queue, bench.size)
    start = time.perf_counter()
    leasing, calls, done = 0.0, 0, 0
    while done < bench.size:
        backend.promote_due([queue], BATCH)
        before = time.perf_counter()
        leases = benchmark_store.lease(backend, queue, BATCH)
        leasing += time.perf_counter() - before
        calls += 1
        benchmark_store.complete(backend, leases)
        done += len(leases)
    return {"drain": (time.perf_counter() - start) / bench.size, "lease": leasing / calls}


if __name__ == "__main__":
    sys.exit(main(__doc__, measures, size=1_000))
