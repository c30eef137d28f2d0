"""A connection that listens, and on which nothing else is ever run."""

from __future__ import annotations

import contextlib

from psycopg import sql

from scheduler_backends.postgres.database import Database
from scheduler_backends.postgres.errors import translated


class Listener:
    """LISTEN on *channel*, on a connection that is taken out of the pool. Raises `BackendUnavailable` as calls do."""

    def __init__(self, database: Database, channel: str) -> None:
        self._driver = database.detached()
        try:
            self._driver.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)), prepare=False)
        except Exception as error:  # noqa: BLE001 - whatever a driver or the system raises
            self.close()
            failure = translated(error)
        else:
            return
        raise failure

    def fileno(self) -> int:
        """The socket, readable when there is something to hear."""
        return self._driver.pgconn.socket

    def heard(self) -> list[str]:
        """The payloads that have come in."""
        payloads = []
        try:
            self._driver.pgconn.consume_input()
            while (notification := self._driver.pgconn.notifies()) is not None:
                payloads.append(notification.extra.decode(errors="replace"))
            return payloads
        except Exception as error:  # noqa: BLE001 - whatever a driver or the system raises
            failure = translated(error)
        raise failure

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(Exception):
            self._driver.close()
