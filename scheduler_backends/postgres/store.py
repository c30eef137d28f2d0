"""What the rooms of this backend work on: the database, its statements, the clock of a test, and the notifier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scheduler.queues import Retention
from scheduler_backends.postgres.database import Database, Rows
from scheduler_backends.postgres.notifier import Notifier
from scheduler_backends.postgres.statements import Statements


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """now: microseconds since 1970 where a test has handed in a clock, None = the server's own time."""

    database: Database
    statements: Statements
    retention: Retention
    now: Callable[[], int | None]
    notifier: Notifier

    def run(self, statement: str, **parameters: Any) -> Rows:
        """Run one statement; the moment is added."""
        return self.database.run(statement, {"now": self.now(), **parameters})
