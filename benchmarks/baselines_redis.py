"""Baselines on Redis and Valkey: redis-py with hiredis, default options, one connection."""

from __future__ import annotations

import statistics
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit, urlunsplit

if TYPE_CHECKING:
    from redis import Redis

VALUE = b"x" * 225  # the size of a job's record
BATCH = 64


@contextmanager
def client(url: str) -> Iterator[tuple[Redis, str]]:
    """Yield a client for the server of *url*, without options of the backend, and a key that is deleted at the end."""
    import redis  # noqa: PLC0415 - benchmarks of other stores run without it

    parts = urlsplit(url)
    kept = "&".join(f"db={number}" for number in parse_qs(parts.query).get("db", []))
    scheme = {"valkey": "redis", "valkeys": "rediss"}.get(parts.scheme, parts.scheme)
    key = f"bench-baseline-{uuid.uuid4().hex[:12]}"
    with redis.Redis.from_url(urlunsplit(parts._replace(scheme=scheme, query=kept))) as connection:
        try:
            yield connection, key
        finally:
            connection.delete(key)


def f1(url: str, *, rounds: int = 100) -> float:
    """Return seconds per LPUSH plus RPOP. Each pipeline has 64 LPUSH, then 64 RPOP."""
    return _pipelines(url, rounds, pop=True)


def lpush(url: str, *, rounds: int = 100) -> float:
    """Return seconds per LPUSH, 64 in each pipeline."""
    return _pipelines(url, rounds, pop=False)


def _pipelines(url: str, rounds: int, *, pop: bool) -> float:
    with client(url) as (connection, key):
        start = time.perf_counter()
        for _ in range(rounds):
            pipeline = connection.pipeline(transaction=False)
            for _ in range(BATCH):
                pipeline.lpush(key, VALUE)
            for _ in range(BATCH if pop else 0):
                pipeline.rpop(key)
            pipeline.execute()
        return (time.perf_counter() - start) / (rounds * BATCH)


def ping(url: str, *, count: int = 2_000) -> float:
    """Return seconds per PING."""
    with client(url) as (connection, _):
        start = time.perf_counter()
        for _ in range(count):
            connection.ping()
        return (time.perf_counter() - start) / count


def blpop(url: str, *, count: int = 200) -> float:
    """Return the median seconds from an LPUSH until the BLPOP of a blocked client returns."""
    arrivals: SimpleQueue[float] = SimpleQueue()

    def receive() -> None:
        with client(url) as (receiver, _):
            for _ in range(count):
                receiver.blpop([key], timeout=4)  # below the client's default timeout of 5 s
                arrivals.put(time.perf_counter())

    with client(url) as (connection, key):
        thread = threading.Thread(target=receive, name="blpop")  # ends after *count* calls
        thread.start()
        taken = []
        for _ in range(count):
            time.sleep(0.002)  # until the receiver is blocked again
            start = time.perf_counter()
            connection.lpush(key, VALUE)
            taken.append(arrivals.get(timeout=10) - start)
        thread.join()
    return statistics.median(taken)
