"""Jobs per second through a worker on 8 partitions. The baseline is the same on one partition."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from functools import partial

from benchmarks.benchmark_store import BenchmarkStore
from benchmarks.command import main
from benchmarks.measure import JOBS_PER_SECOND, Baseline, Measure
from benchmarks.worker_throughput import drain_on, tuned
from scheduler.abilities import TopologyAdmin

MANY = 8


def measures(bench: BenchmarkStore) -> Iterator[Measure]:
    """Yield the throughput. Yield nothing if the store has no partitions."""
    if not isinstance(bench.backend, TopologyAdmin):
        return
    with closing(bench.open(partitions="1")) as one, closing(bench.open(partitions=str(MANY))) as many:
        config = tuned(bench.batch)
        yield Measure(
            name=f"worker_end_to_end_{MANY}_partitions",
            unit=JOBS_PER_SECOND,
            run=partial(drain_on, many, bench, config),
            baseline=Baseline(name="one_partition", run=partial(drain_on, one, bench, config)),
        )


if __name__ == "__main__":
    sys.exit(main(__doc__, measures, size=20_000))
