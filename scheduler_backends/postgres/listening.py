"""A connection that listens, and on which nothing else is ever run."""

from __future__ import annotations

import contextlib

import psycopg
from psycopg import sql

from scheduler_backends.postgres.database import Database
from scheduler_backends.postgres.errors import ERRORS, translated


class Listener:
    """LISTEN on *channel*, on a connection that is taken out of the pool. Raises `BackendUnavailable` as calls do."""

    def __init__(self, database: Database, channel: str) -> None:
        self._driver = database.detached()
        try:
            self._driver.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)), prepare=False)
        except ERRORS as error:
            self.close()
            raise translated(error) from error

    def fileno(self) -> int:
        """The socket, readable when there is something to hear."""
        return self._driver.pgconn.socket

    def heard(self) -> list[str]:
        """The payloads that have come in."""
        payloads = []
        try:
            self._driver.pgconn.consume_input()
            while (notification := self._driver.pgconn.notifies()) is not None:
                payloads.append(notification.extra.decode())
        except psycopg.Error as error:
            raise translated(error) from error
        return payloads

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(*ERRORS):
            self._driver.close()
