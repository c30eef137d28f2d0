"""A schema for each test, in the database that all tests of this process share."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

pytest.importorskip("psycopg")
pytest.importorskip("sqlalchemy")

from scheduler_backends.postgres import PostgresBackend

_numbers = itertools.count(1)


@pytest.fixture
def schema() -> str:
    """A schema that is not there yet."""
    return f"test_{next(_numbers)}"


@pytest.fixture
def new_backend(postgres_url, schema) -> Iterator[Callable[..., PostgresBackend]]:
    """Opens backends on the test's schema, with further arguments; the schema is made when needed."""
    with ExitStack() as stack:

        def open_backend(url: object = postgres_url, **options: object) -> PostgresBackend:
            backend = PostgresBackend(url, **{"schema": schema, "migrate": True, **options})
            stack.callback(backend.close)
            return backend

        yield open_backend


@pytest.fixture
def backend(new_backend) -> PostgresBackend:
    return new_backend()
