"""The machine's clock, and what a test may hand in instead of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol, runtime_checkable


@runtime_checkable
class Clock(Protocol):
    """Tells a store what time it is. Stores on a server ask that server instead, unless a test hands one in."""

    def now(self) -> datetime:
        """The present moment, aware, in UTC. Called from any thread."""
        ...


class SystemClock:
    """This machine's wall clock."""

    def now(self) -> datetime:
        """The present moment, aware, in UTC."""
        return datetime.now(UTC)
