"""Databases of a PostgreSQL server that is known by its URL alone."""

from __future__ import annotations

from typing import LiteralString
from urllib.parse import urlsplit, urlunsplit


def answers(url: str) -> bool:
    """Whether the server takes a connection and runs a statement."""
    import psycopg  # noqa: PLC0415 - a test run without servers has no driver

    try:
        with psycopg.connect(_for_driver(url), connect_timeout=2) as connection:
            connection.execute("SELECT 1")
    except psycopg.OperationalError:  # not there yet, or still recovering
        return False
    return True


def create(url: str, name: str) -> str:
    """Make a database on the server of *url* and answer its URL."""
    _execute(url, "CREATE DATABASE {}", name)
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


def drop(url: str, name: str) -> None:
    """Remove a database, even if clients are still connected to it."""
    _execute(url, "DROP DATABASE IF EXISTS {} WITH (FORCE)", name)


def _execute(url: str, statement: LiteralString, name: str) -> None:
    import psycopg  # noqa: PLC0415 - as above
    from psycopg import sql  # noqa: PLC0415

    with psycopg.connect(_for_driver(url), autocommit=True) as connection:
        connection.execute(sql.SQL(statement).format(sql.Identifier(name)))


def _for_driver(url: str) -> str:
    return url.replace("+psycopg:", ":", 1)  # SQLAlchemy's form of a URL
