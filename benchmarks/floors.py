"""
The floors: the least that any program would pay for the same on the same store. They never change with the library.

Each answers seconds an item. A floor lasts some tenths of a second, so that it can stand before every repeat.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from benchmarks import floors_redis, floors_sql
from benchmarks.measure import Floor

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
"""URL scheme → the kind of store, as far as there are floors for it."""


def submit(_url: str = "", *, count: int = 20_000) -> float:
    """ThreadPoolExecutor(8), a function that does nothing, futures dropped, the pool's exit included."""
    start = time.perf_counter()
    with ThreadPoolExecutor(8) as pool:
        for _ in range(count):
            pool.submit(_nothing)
    return (time.perf_counter() - start) / count


def _nothing() -> None:
    pass


_FLOORS: Mapping[str, Callable[[str], float]] = {
    "submit": submit,
    "F1": floors_redis.f1,
    "lpush": floors_redis.lpush,
    "ping": floors_redis.ping,
    "blpop": floors_redis.blpop,
    "insert_commit": floors_sql.insert_commit,
    "select_1 + insert_commit": floors_sql.select_and_insert,
    "skip_locked": floors_sql.skip_locked,
    "copy": floors_sql.copy,
}


def floor(name: str, url: str) -> Floor:
    """The floor of this name on the server, or in the file, of a backend's *url*."""
    return Floor(name=name, run=partial(_FLOORS[name], url))
