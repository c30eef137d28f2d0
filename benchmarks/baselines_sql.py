"""Baselines on PostgreSQL (psycopg) and SQLite (sqlite3): one connection, some on the store's own table."""

from __future__ import annotations

import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit, urlunsplit

from scheduler.identity import new_id

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.sql import Composed

BATCH = 64
_PAYLOAD = b"x" * 60


class _Row(NamedTuple):
    """
    Columns that the store's own INSERT fills for a plain job.

    The job was due in 1970. Its queue has no workers.
    """

    queue: str
    id: str
    type: str = "benchmark.nothing"
    priority: int = 2
    state: int = 0
    max_retries: int = 3
    timeout: float = 30.0
    run_at: int = 1
    due_at: int = 1
    created_at: int = 1
    nonce: str = "0123456789abcdef"
    payload: bytes = _PAYLOAD


_COLUMNS = ", ".join(_Row._fields)


def _rows(count: int) -> list[_Row]:
    queue = f"bench-baseline-{uuid.uuid4().hex[:12]}"
    return [_Row(queue, new_id()) for _ in range(count)]


def insert_commit(url: str, *, count: int = 1_000) -> float:
    """Return seconds per INSERT into the store's job table, with its commit."""
    rows = _rows(count)
    with (_sqlite_inserter if _is_sqlite(url) else _postgres_inserter)(url, rows[0].queue) as insert:
        start = time.perf_counter()
        for row in rows:
            insert(row)
        return (time.perf_counter() - start) / count


def select_and_insert(url: str, *, count: int = 500) -> float:
    """Return seconds per SELECT 1 plus INSERT, with its commit."""
    with _sqlite(url) if _is_sqlite(url) else postgres(url) as connection:
        start = time.perf_counter()
        for _ in range(count):
            connection.execute("SELECT 1").fetchone()
        select = (time.perf_counter() - start) / count
    return select + insert_commit(url, count=count)


def skip_locked(url: str, *, rounds: int = 100) -> float:
    """Return seconds per row of a DELETE of 64 rows from a plain table, selected FOR UPDATE SKIP LOCKED."""
    with postgres(url) as connection, _own_table(connection, url) as table:
        connection.execute(
            _composed("INSERT INTO {} SELECT n, %s FROM generate_series(1, %s) AS n", table), [_PAYLOAD, rounds * BATCH]
        )
        connection.execute(_composed("VACUUM ANALYZE {}", table))
        delete = _composed(
            "DELETE FROM {0} WHERE id IN (SELECT id FROM {0} ORDER BY id LIMIT 64 FOR UPDATE SKIP LOCKED)"
            " RETURNING id, payload",
            table,
        )
        start = time.perf_counter()
        for _ in range(rounds):
            connection.execute(delete).fetchall()
        return (time.perf_counter() - start) / (rounds * BATCH)


def copy(url: str, *, count: int = 10_000) -> float:
    """Return seconds per row of a COPY of 10,000 rows into the store's job table, with its commit."""
    rows = _rows(count)
    with postgres(url) as connection:
        table = _job_table(url)
        statement = _composed(f"COPY {{}} ({_COLUMNS}) FROM STDIN", table)
        try:
            start = time.perf_counter()
            with connection.cursor() as cursor, cursor.copy(statement) as target:
                for row in rows:
                    target.write_row(row)
            return (time.perf_counter() - start) / count
        finally:
            connection.execute(_composed("DELETE FROM {} WHERE queue = %s", table), [rows[0].queue])


@contextmanager
def _postgres_inserter(url: str, queue: str) -> Iterator[Callable[[_Row], object]]:
    with postgres(url) as connection:
        table = _job_table(url)
        places = ", ".join(["%s"] * len(_Row._fields))
        insert = _composed(f"INSERT INTO {{}} ({_COLUMNS}) VALUES ({places})", table)  # noqa: S608 - ours
        try:
            yield lambda row: connection.execute(insert, row)
        finally:
            connection.execute(_composed("DELETE FROM {} WHERE queue = %s", table), [queue])


@contextmanager
def _sqlite_inserter(url: str, queue: str) -> Iterator[Callable[[_Row], object]]:
    (prefix,) = _options(url).get("prefix", ["scheduler_"])
    places = ", ".join("?" * len(_Row._fields))
    insert = f"INSERT INTO {prefix}job ({_COLUMNS}) VALUES ({places})"  # noqa: S608 - the store checks it
    with _sqlite(url) as connection:
        try:
            yield lambda row: connection.execute(insert, row)
        finally:
            connection.execute(f"DELETE FROM {prefix}job WHERE queue = ?", (queue,))  # noqa: S608 - as above


@contextmanager
def _own_table(connection: Connection, url: str) -> Iterator[Composed]:
    from psycopg import sql  # noqa: PLC0415 - benchmarks of other stores run without it

    (schema,) = _options(url).get("schema", ["scheduler"])
    table = sql.Composed([sql.Identifier(schema, f"bench_{uuid.uuid4().hex[:12]}")])
    connection.execute(_composed("CREATE TABLE {} (id bigint PRIMARY KEY, payload bytea)", table))
    try:
        yield table
    finally:
        connection.execute(_composed("DROP TABLE {}", table))


def _job_table(url: str) -> Composed:
    from psycopg import sql  # noqa: PLC0415 - as above

    options = _options(url)
    (schema,), (prefix,) = options.get("schema", ["scheduler"]), options.get("prefix", [""])
    return sql.Composed([sql.Identifier(schema, f"{prefix}job")])


def _composed(statement: str, table: Composed) -> Composed:
    from psycopg import sql  # noqa: PLC0415 - as above

    return sql.SQL(statement).format(table)


@contextmanager
def postgres(url: str) -> Iterator[Connection]:
    """Connect to the server of *url*, without options of the backend."""
    import psycopg  # noqa: PLC0415 - as above

    plain = urlunsplit(urlsplit(url)._replace(scheme="postgresql", query=""))
    with psycopg.connect(plain, autocommit=True) as connection:
        yield connection


@contextmanager
def _sqlite(url: str) -> Iterator[sqlite3.Connection]:
    path = unquote(urlsplit(url).path)[1:]
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        (synchronous,) = _options(url).get("synchronous", ["full"])
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL" if synchronous == "normal" else "PRAGMA synchronous = FULL")
        yield connection


def _is_sqlite(url: str) -> bool:
    return url.startswith("sqlite:")


def _options(url: str) -> dict[str, list[str]]:
    return parse_qs(urlsplit(url).query)
