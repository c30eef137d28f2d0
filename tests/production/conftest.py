"""
Stores as a program in production meets them: by a URL. Every test that takes `place` runs on each of `STORES`.

To run them on one more store, add what makes an empty place on it of the test's own fixtures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from production.embedded import Crew
from production.place import Place, url_on_postgres, url_on_redis, url_on_sqlite


def _sqlite(request: pytest.FixtureRequest) -> str:
    return url_on_sqlite(request.getfixturevalue("tmp_path") / "jobs.db")


def _redis(request: pytest.FixtureRequest) -> str:
    return url_on_redis(request.getfixturevalue("redis_url"), request.getfixturevalue("redis_prefix"))


def _postgres(request: pytest.FixtureRequest) -> str:
    pytest.importorskip("psycopg")
    return url_on_postgres(request.getfixturevalue("postgres_url"))


STORES: dict[str, Callable[[pytest.FixtureRequest], str]] = {"sqlite": _sqlite, "redis": _redis, "postgres": _postgres}
SERVERS = ("redis", "postgres")
PARAMS = [pytest.param(name, marks=[pytest.mark.integration] if name in SERVERS else []) for name in STORES]


@pytest.fixture(params=PARAMS)
def store(request: pytest.FixtureRequest) -> str:
    """The name of the store that the test runs on."""
    return request.param


@pytest.fixture
def store_url(request: pytest.FixtureRequest, store: str) -> str:
    """An empty store of this test's own, several processes of which can use it."""
    return STORES[store](request)


@pytest.fixture
def place(store_url: str, tmp_path: Path) -> Iterator[Place]:
    """The store, and real processes that use it."""
    place = Place(store_url, tmp_path)
    yield place
    place.close()


@pytest.fixture
def file_place(tmp_path: Path) -> Iterator[Place]:
    """A place in a file, for what has nothing to do with the store."""
    place = Place(url_on_sqlite(tmp_path / "jobs.db"), tmp_path)
    yield place
    place.close()


@pytest.fixture
def new_crew() -> Iterator[Callable[..., Crew]]:
    """Makes workers of this process on a URL, with changes of their configuration, and ends them."""
    crews: list[Crew] = []

    def make(url: str, **changes: object) -> Crew:
        crews.append(Crew(url, **changes))
        return crews[-1]

    yield make
    for crew in crews:
        crew.close()
