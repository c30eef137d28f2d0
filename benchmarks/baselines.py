"""
Baselines: the least that any program would pay for the same work on the same store.

They do not change when the library changes. Each returns seconds per item, and takes some tenths of a second, so that
it can run before every repeat.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from benchmarks import baselines_redis, baselines_sql
from benchmarks.measure import Baseline

KINDS: Mapping[str, str] = {
    "memory": "memory",
    "redis": "redis",
    "rediss": "redis",
    "valkey": "redis",
    "valkeys": "redis",
    "unix": "redis",
    "postgresql": "postgres",
    "postgresql+psycopg": "postgres",
    "sqlite": "sqlite",
}
"""Kind of store by URL scheme, for stores that have baselines."""


def submit(_url: str = "", *, count: int = 20_000) -> float:
    """Submit no-op functions to a ThreadPoolExecutor(8), and wait for its end. Futures are dropped."""
    start = time.perf_counter()
    with ThreadPoolExecutor(8) as pool:
        for _ in range(count):
            pool.submit(_nothing)
    return (time.perf_counter() - start) / count


def _nothing() -> None:
    pass


_BASELINES: Mapping[str, Callable[[str], float]] = {
    "submit": submit,
    "F1": baselines_redis.f1,
    "lpush": baselines_redis.lpush,
    "ping": baselines_redis.ping,
    "blpop": baselines_redis.blpop,
    "insert_commit": baselines_sql.insert_commit,
    "select_1 + insert_commit": baselines_sql.select_and_insert,
    "skip_locked": baselines_sql.skip_locked,
    "copy": baselines_sql.copy,
}


def baseline(name: str, url: str) -> Baseline:
    """Return the baseline *name* on the server or file of a backend's *url*."""
    return Baseline(name=name, run=partial(_BASELINES[name], url))
