"""
The store on which the worker's tests run: every test that takes `stand` or `open_backend` runs on each of `STORES`.

To run them on one more store, add its opener: it takes the test's `request`, from which it can get the store's own
fixtures, and answers what opens backends on one and the same empty store. Queues bear new names in every test, so a
store may be shared. Every change is tested on memory; the others are `long`, and chosen by `-m long -k sqlite`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scheduler.backend import Backend
from scheduler.queues import Retention
from scheduler_backends.memory import MemoryBackend
from scheduler_backends.sqlite import SqliteBackend
from worker.stand import KEEP, OpenBackend, Stand


def _memory(request: pytest.FixtureRequest) -> Callable[[Retention], Backend]:
    return lambda retention: MemoryBackend(retention=retention)


def _sqlite(request: pytest.FixtureRequest) -> Callable[[Retention], Backend]:
    path: Path = request.getfixturevalue("tmp_path") / "jobs.db"
    return lambda retention: SqliteBackend(path, retention=retention)


STORES: dict[str, Callable[[pytest.FixtureRequest], Callable[[Retention], Backend]]] = {
    "memory": _memory,
    "sqlite": _sqlite,
}


@pytest.fixture(
    params=[pytest.param(name, marks=() if name == "memory" else pytest.mark.long) for name in STORES],
)
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
def stand(open_backend: OpenBackend) -> Iterator[Stand]:
    """A store that keeps what has finished, behind faults, with a queue of this test's own."""
    stand = Stand(open_backend())
    yield stand
    stand.close()


@pytest.fixture
def bare(open_backend: OpenBackend) -> Iterator[Stand]:
    """As `stand`, on a store with the default retention: succeeded jobs are gone at once."""
    stand = Stand(open_backend(Retention()))
    yield stand
    stand.close()
