"""Driver connections with a bounded wait, and checks whether a connection can be used."""

from __future__ import annotations

import contextlib
import select
import time
from collections.abc import Generator
from typing import Any, TypeVar

import psycopg
from psycopg import pq

T = TypeVar("T")
# psycopg 3.2.11 and newer sends this value to its generators if nothing happened for an interval.
_READY_NONE = 0


class BoundedConnection(psycopg.Connection[Any]):
    """
    Connection that raises TimeoutError if a statement waits longer than `limit` seconds for the server.

    The time-outs of TCP and the server's statement_timeout are not enough: a firewall may drop a connection silently,
    and a proxy may continue to acknowledge bytes. After the error the caller must drop the connection.
    """

    limit: float = 10.0

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **options: Any) -> T:
        """Override of psycopg's method, which is called for each exchange with the server after connecting."""
        return super().wait(_bounded(gen, self.limit), *args, **options)


def _bounded(gen: Generator[Any, Any, T], limit: float) -> Generator[Any, Any, T]:
    deadline = time.monotonic() + limit
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if ready == _READY_NONE and time.monotonic() >= deadline:
                raise TimeoutError(f"no reply within {limit:g} s")
            wanted = gen.send(ready)
    except StopIteration as end:
        result: T = end.value
        return result


def is_alive(connection: psycopg.Connection[Any]) -> bool:
    """
    Return whether an idle connection is still open, as far as this machine can tell.

    A server that closes a connection sends a message first, so there is something to read. This check is one system
    call, while a "pre-ping" is a round trip. The check must come first: a statement that was sent to a dead connection
    cannot be repeated, because it may have run.
    """
    if connection.closed:
        return False
    poll = select.poll()
    poll.register(connection.pgconn.socket, select.POLLIN)
    try:
        while poll.poll(0):
            connection.pgconn.consume_input()  # a notice, or the last message; raises at the end
    except psycopg.Error:
        return False
    return connection.pgconn.status == pq.ConnStatus.OK


def is_utf8(connection: psycopg.Connection[Any]) -> bool:
    """Return whether text is sent as UTF-8. Other encodings lack characters, and SQL_ASCII returns bytes."""
    return connection.pgconn.parameter_status(b"client_encoding") == b"UTF8"


def cancel(connection: psycopg.Connection[Any]) -> None:
    """Ask the server to cancel the statement of a connection that will be dropped."""
    with contextlib.suppress(psycopg.Error, OSError):
        connection.cancel_safe(timeout=1.0)
