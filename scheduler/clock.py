"""The protocol of the clocks that tests use instead of the store's own, and moments later than others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Protocol, runtime_checkable


@runtime_checkable
class Clock(Protocol):
    """The clock of a store. Stores on a server use the server's clock unless a test passes another one."""

    def now(self) -> datetime:
        """Return the present moment, aware, in UTC. Called from any thread."""
        ...


def later(moment: datetime, seconds: float) -> datetime:
    """Return the moment *seconds* after *moment*, at most the last one of the year 9999."""
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)
