"""Jobs per second that the store leases and completes, for several batch sizes and numbers of threads."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from benchmarks import benchmark_store
from benchmarks.benchmark_store import BenchmarkStore
from benchmarks.command import main
from benchmarks.measure import JOBS_PER_SECOND, Measure
from scheduler.backend import Backend


def measures(bench: BenchmarkStore) -> Iterator[Measure]:
    """Yield the batch sizes and numbers of threads for which docs/stores gives figures."""
    for batch, threads, postgres in ((64, 1, "skip_locked"), (64, 4, "skip_locked"), (256, 2, "insert_commit")):
        yield Measure(
            name=f"lease_complete_{batch}x{threads}",
            unit=JOBS_PER_SECOND,
            run=partial(drain, bench, batch, threads),
            baseline=bench.baseline(redis="F1", postgres=postgres, sqlite="insert_commit"),
        )


def drain(bench: BenchmarkStore, batch: int, threads: int) -> float:
    """Return seconds per job. Filling the queue is not measured."""
    queue = bench.new_queue()
    bench.fill(bench.backend, queue, bench.size)
    with ThreadPoolExecutor(threads) as pool:
        start = time.perf_counter()
        done = sum(pool.map(lambda _: _take_all(bench.backend, queue, batch), range(threads)))
        seconds = time.perf_counter() - start
    if done != bench.size:
        raise RuntimeError(f"{done} of {bench.size} jobs were leased: the run is invalid")
    return seconds / bench.size


def _take_all(backend: Backend, queue: str, batch: int) -> int:
    done = 0
    while leases := benchmark_store.lease(backend, queue, batch):
        benchmark_store.complete(backend, leases)
        done += len(leases)
    return done


if __name__ == "__main__":
    sys.exit(main(__doc__, measures, size=10_000))
