"""Connections of our own that end a wait, and whether an idle one is still alive."""

from __future__ import annotations

import contextlib
import select
import time
from collections.abc import Generator
from typing import Any, TypeVar

import psycopg
from psycopg import pq

T = TypeVar("T")
# What a driver's generator is sent when nothing happened for an interval (by psycopg 3.2.11 and newer).
_READY_NONE = 0


class BoundedConnection(psycopg.Connection[Any]):
    """
    A connection on which no statement waits for longer than `limit` seconds: then it raises TimeoutError.

    A firewall may drop a connection silently, and a proxy may go on acknowledging bytes: neither TCP's own time-outs
    nor the server's statement_timeout help. The caller that gets the error must drop the connection.
    """

    limit: float = 10.0

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **options: Any) -> T:
        """See psycopg. Called for every exchange with the server after connecting."""
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
    Whether an idle connection has not been closed by the other side, as far as this machine can tell.

    A server that closes it sends a message first, so there is something to read. This takes one system call; a
    "pre-ping" costs a round trip. A statement that was sent to a dead connection cannot be repeated: it may have run.
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
    """Whether text is sent and received as UTF-8. Other encodings have fewer characters, and SQL_ASCII gives bytes."""
    return connection.pgconn.parameter_status(b"client_encoding") == b"UTF8"


def cancel(connection: psycopg.Connection[Any]) -> None:
    """Ask the server to end the statement on a connection that is dropped."""
    with contextlib.suppress(psycopg.Error, OSError):
        connection.cancel_safe(timeout=1.0)
