"""Cost of an idle worker per second: calls to the backend, round trips to the server, processor time, wake-ups."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial, wraps
from typing import ParamSpec, TypeVar

from benchmarks.benchmark_store import TYPE, BenchmarkStore
from benchmarks.command import main
from benchmarks.counters import requests
from benchmarks.measure import CALLS_PER_SECOND, PERCENT_OF_A_CORE, SWITCHES_PER_SECOND, Measure
from scheduler import Worker, WorkerConfig
from scheduler.backend import METHODS, Backend

P = ParamSpec("P")
R = TypeVar("R")
SETTLED_IN = 1.5  # seconds until every loop has made its first call
COUNTED_IN = {"postgres": 11.0}  # seconds: sessions report their statistics after ten idle seconds
UNITS = {
    "calls": CALLS_PER_SECOND,
    "round_trips": CALLS_PER_SECOND,
    "cpu": PERCENT_OF_A_CORE,
    "switches": SWITCHES_PER_SECOND,
}


def measures(bench: BenchmarkStore) -> Iterator[Measure]:
    """Yield the costs of a worker with the default configuration. --size: length of a repeat in seconds."""
    yield Measure(name="idle", unit=UNITS, run=partial(rest, bench))


def rest(bench: BenchmarkStore) -> dict[str, float]:
    """Return the costs per second."""
    backend = bench.open()
    calls = count_calls(backend)
    worker = Worker(backend, WorkerConfig(queues=(bench.new_queue(),)))
    worker.handle(TYPE, lambda job, ctx: None)  # noqa: ARG005 - the signature of a handler
    try:
        with requests(bench.url) as trips, worker:
            time.sleep(COUNTED_IN.get(bench.store, SETTLED_IN))
            before = _now(calls, trips)
            start = time.perf_counter()
            time.sleep(bench.size)
            seconds = time.perf_counter() - start
            after = _now(calls, trips)
    finally:
        backend.close()
    return {name: (after[name] - value) / seconds for name, value in before.items()}


def _now(calls: list[str], trips: Callable[[], int] | None) -> dict[str, float]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    counts = {"calls": float(len(calls)), "cpu": usage.ru_utime + usage.ru_stime, "switches": float(usage.ru_nvcsw)}
    return counts if trips is None else {**counts, "round_trips": float(trips())}


def count_calls(backend: Backend) -> list[str]:
    """Return a list that gets the name of a method of *backend* whenever that method is called."""
    calls: list[str] = []
    for name in METHODS:
        setattr(backend, name, _counted(getattr(backend, name), name, calls))
    return calls


def _counted(method: Callable[P, R], name: str, calls: list[str]) -> Callable[P, R]:
    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        calls.append(name)
        return method(*args, **kwargs)

    return call


if __name__ == "__main__":
    sys.exit(main(__doc__, measures, size=5))
