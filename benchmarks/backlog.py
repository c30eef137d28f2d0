"""Jobs that are not due must not slow those that are: --size jobs due, with 200 times as many not due in the store."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from functools import partial

from benchmarks import stage as stages
from benchmarks.command import main
from benchmarks.measure import JOBS_PER_SECOND, MILLISECONDS, Floor, Measure
from benchmarks.stage import PAYLOAD, SLICE, TYPE, Stage
from scheduler.backend import Backend
from scheduler.jobs import NewJob, Priority

NOT_DUE = 200  # for each that is due
BATCH = 64


def measures(stage: Stage) -> Iterator[Measure]:
    """Promoting, leasing and completing all that is due, and a lease call alone; the floor has no backlog."""
    apart = {} if stage.store == "memory" else {"prefix": "bench_backlog_"}
    full = stage.open(**apart)
    queue = stage.new_queue()
    try:
        _fill(full, queue, stage.size * NOT_DUE)
        empty_store = partial(drain, stage, stage.backend, stage.new_queue())
        yield Measure(
            name="backlog",
            unit={"drain": JOBS_PER_SECOND, "lease": MILLISECONDS},
            run=partial(drain, stage, full, queue),
            floor=Floor(name="empty_store", run=empty_store),
        )
    finally:
        stages.empty(full, queue)
        full.close()


def _fill(backend: Backend, queue: str, count: int) -> None:
    """Jobs due in one to two hours, of all priorities: the more urgent ones are in the way of a careless lease."""
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


def drain(stage: Stage, backend: Backend, queue: str) -> dict[str, float]:
    """Seconds a job for all that is due, and seconds of a lease call."""
    stage.fill(backend, queue, stage.size)
    start = time.perf_counter()
    leasing, calls, done = 0.0, 0, 0
    while done < stage.size:
        backend.promote_due([queue], BATCH)
        before = time.perf_counter()
        leases = stages.lease(backend, queue, BATCH)
        leasing += time.perf_counter() - before
        calls += 1
        stages.complete(backend, leases)
        done += len(leases)
    return {"drain": (time.perf_counter() - start) / stage.size, "lease": leasing / calls}


if __name__ == "__main__":
    sys.exit(main(__doc__, measures, size=1_000))
