"""A connection that listens, and on which nothing else is ever run."""

from __future__ import annotations

import contextlib

from psycopg import sql

from scheduler_backends.postgres.database import Database
from scheduler_backends.postgres.errors import translating


class Listener:
    """LISTEN on *channel*, on a connection that is taken out of the pool. Raises `BackendUnavailable` as calls do."""

    def __init__(self, database: Database, channel: str) -> None:
        self._driver = database.detached()
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
        with contextlib.suppress(Exception):
            self._driver.close()
