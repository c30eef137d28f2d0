"""A connection that listens, and on which nothing else is ever run."""

from __future__ import annotations

import contextlib

from psycopg import sql

from scheduler.sleeping import Ownership
from scheduler_backends.postgres.database import Database
from scheduler_backends.postgres.errors import translating

# Connections whose descriptor somebody has closed, kept for ever: libpq would close the number, which may be another's.
_abandoned: list[object] = []


class Listener:
    """LISTEN on *channel*, on a connection that is taken out of the pool. Raises `BackendUnavailable` as calls do."""

    def __init__(self, database: Database, channel: str) -> None:
        self._driver = database.detached()
        self._own = Ownership(self._driver.pgconn.socket)
        listen = sql.SQL("LISTEN {}").format(sql.Identifier(channel))
        try:
            translating(lambda: self._driver.execute(listen, prepare=False))
        except BaseException:
            self.close()
            raise

    def fileno(self) -> int:
        """Return the socket, readable when a notification may have come."""
        return self._driver.pgconn.socket

    def received(self) -> list[str]:
        """Return the payloads of the notifications that have come."""
        return translating(self._received)

    def _received(self) -> list[str]:
        self._driver.pgconn.consume_input()
        payloads = []
        while (notification := self._driver.pgconn.notifies()) is not None:
            payloads.append(notification.extra.decode(errors="replace"))
        return payloads

    def close(self) -> None:
        """Close the connection."""
        if not self._own.is_mine() and not self._driver.closed:
            _abandoned.append(self._driver)
            return
        with contextlib.suppress(Exception):
            self._driver.close()
