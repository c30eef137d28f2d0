"""A schema for each test, in the database that all tests of this process share."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

pytest.importorskip("psycopg")
pytest.importorskip("sqlalchemy")

import psycopg
from psycopg.rows import dict_row

from scheduler_backends.postgres import PostgresBackend
from scheduler_backends.sql.columns import TABLES

_DOCUMENTS = {name for name, column in TABLES["job"].items() if column.type == "jsonb"}

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


@pytest.fixture
def spoil(postgres_url, schema) -> Callable[..., None]:
    """Sets columns of the job "bad", past the checks or not."""

    def spoil(*, all_jobs=False, strict=True, **columns):
        with psycopg.connect(postgres_url, autocommit=True) as other:
            if strict:
                checks = (
                    f"SELECT conname FROM pg_constraint WHERE conrelid = '{schema}.job'::regclass AND contype = 'c'"
                )
                for (name,) in other.execute(checks).fetchall():
                    other.execute(f"ALTER TABLE {schema}.job DROP CONSTRAINT {name}")
            where = "id LIKE 'bad%%'" if all_jobs else "id = 'bad'"
            values = ", ".join(f"{name} = %s{'::jsonb' * (name in _DOCUMENTS)}" for name in columns)
            assert other.execute(f"UPDATE {schema}.job SET {values} WHERE {where}", (*columns.values(),)).rowcount

    return spoil


@pytest.fixture
def row(postgres_url, schema) -> Callable[[], dict[str, object]]:
    """Returns the row of the job "bad"."""

    def row():
        with psycopg.connect(postgres_url, row_factory=dict_row) as other:
            return other.execute(f"SELECT * FROM {schema}.job WHERE id = 'bad'").fetchone()

    return row
