"""State that the hooks of this backend share."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from scheduler.clock import Clock
from scheduler.limits import now_of
from scheduler.queues import Retention
from scheduler.waiting import WaiterRegistry
from scheduler_backends.postgres.database import Database, Rows
from scheduler_backends.postgres.notifier import Notifier
from scheduler_backends.postgres.schema import PostgresSchema
from scheduler_backends.postgres.statements import Statements
from scheduler_backends.sql.moments import to_micros
from scheduler_backends.sql.unreadable import UnreadableLog

_log: Final = logging.getLogger("scheduler.postgres")


@dataclass(slots=True, kw_only=True)
class Store:
    """
    Parts of one backend.

    Args:
        database: runs the statements.
        schema: the tables and their migration.
        statements: the text of all statements.
        retention: how long finished jobs are kept.
        clock: the source of the current time, None = the server's clock.
        channel: the channel of LISTEN and NOTIFY.
        notifier: notifies the waiters of all processes.
        listening: the database for LISTEN, None = LISTEN does not work.
        waiters: the open waiters of this backend.
        known_queues: queues that this process has added to the table of queues. Adding one twice is harmless.
        turns: counts lease calls, so that each begins with another queue. `next()` on it is atomic.
        unreadable: the log of jobs that cannot be read.
    """

    database: Database
    schema: PostgresSchema
    statements: Statements
    retention: Retention
    clock: Clock | None
    channel: str
    notifier: Notifier
    listening: Database | None
    waiters: WaiterRegistry = field(default_factory=WaiterRegistry)
    known_queues: set[str] = field(default_factory=set)
    turns: Iterator[int] = field(default_factory=count)
    unreadable: UnreadableLog = field(default_factory=lambda: UnreadableLog(_log))

    def now(self) -> int | None:
        """Return the time of `clock` in microseconds since 1970, None = use the server's clock."""
        return None if self.clock is None else to_micros(now_of(self.clock))

    def run(self, statement: str, **parameters: Any) -> Rows:
        """Run one statement and return its rows. `now` is added to the parameters."""
        return self.database.run(statement, {"now": self.now(), **parameters})

    def close(self) -> None:
        """End all waits and close the connections."""
        self.waiters.close()
        if self.listening is not None and self.listening is not self.database:
            self.listening.close()
        self.database.close()
