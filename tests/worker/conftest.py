"""
The store on which the worker's tests run: every test that takes `harness` or `open_backend` runs on each of `STORES`.

To run them on one more store, add its opener: it takes the test's `request`, from which it can get the store's own
fixtures, and answers what opens backends on one and the same empty store. Queues bear new names in every test, so a
store may be shared.

A test marked `every_store` shows a guarantee of docs/guarantees.md and runs on all of them with every change. Any other
does so on memory; its runs on the other stores are `long`, and chosen by `-m long -k sqlite`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scheduler.backend import Backend
from scheduler.queues import Retention
from scheduler_backends.memory import MemoryBackend
from scheduler_backends.sqlite import SqliteBackend
from worker.harness import KEEP, OpenBackend, WorkerHarness


def _memory(request: pytest.FixtureRequest) -> Callable[[Retention], Backend]:
    return lambda retention: MemoryBackend(retention=retention)


def _sqlite(request: pytest.FixtureRequest) -> Callable[[Retention], Backend]:
    path: Path = request.getfixturevalue("tmp_path") / "jobs.db"
    return lambda retention: SqliteBackend(path, retention=retention)


def _redis(request: pytest.FixtureRequest) -> Callable[[Retention], Backend]:
    pytest.importorskip("redis")
    from scheduler_backends.redis import RedisBackend, RedisConfig  # noqa: PLC0415 - an extra

    url: str = request.getfixturevalue("redis_url")
    config = RedisConfig(prefix=request.getfixturevalue("redis_prefix"), partitions=1)
    return lambda retention: RedisBackend(url, config, retention=retention)


def _postgres(request: pytest.FixtureRequest) -> Callable[[Retention], Backend]:
    pytest.importorskip("psycopg")
    from scheduler_backends.postgres import PostgresBackend  # noqa: PLC0415 - an extra

    url: str = request.getfixturevalue("postgres_url")
    prefix = f"worker{os.urandom(4).hex()}_"
    return lambda retention: PostgresBackend(url, prefix=prefix, migrate=True, retention=retention)


STORES: dict[str, Callable[[pytest.FixtureRequest], Callable[[Retention], Backend]]] = {
    "memory": _memory,
    "sqlite": _sqlite,
    "redis": _redis,
    "postgres": _postgres,
}
SERVERS = ("redis", "postgres")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test that opens a backend on every store: with each change where it says so, else in the long run."""
    if "open_backend" not in metafunc.fixturenames:
        return
    everywhere = metafunc.definition.get_closest_marker("every_store") is not None
    params = []
    for name in STORES:
        marks = [pytest.mark.integration] if name in SERVERS else []
        if not everywhere and name != "memory":
            marks.append(pytest.mark.long)
        params.append(pytest.param(name, marks=marks))
    metafunc.parametrize("open_backend", params, indirect=True)


@pytest.fixture
def open_backend(request: pytest.FixtureRequest) -> Iterator[OpenBackend]:
    """Opens backends on the store under test, and closes them at the end."""
    opener = STORES[request.param](request)
    opened: list[Backend] = []

    def open_one(retention: Retention = KEEP) -> Backend:
        backend = opener(retention)
        opened.append(backend)
        return backend

    yield open_one
    for backend in opened:
        backend.close()


@pytest.fixture
def harness(open_backend: OpenBackend) -> Iterator[WorkerHarness]:
    """A store that keeps what has finished, behind faults, with a queue of this test's own."""
    harness = WorkerHarness(open_backend())
    yield harness
    harness.close()


@pytest.fixture
def bare(open_backend: OpenBackend) -> Iterator[WorkerHarness]:
    """As `harness`, on a store with the default retention: succeeded jobs are gone at once."""
    harness = WorkerHarness(open_backend(Retention()))
    yield harness
    harness.close()
