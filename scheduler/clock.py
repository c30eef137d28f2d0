"""Protocol of clocks, which tests use instead of a store's own, and addition of seconds that never overflows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Protocol, runtime_checkable


@runtime_checkable
class Clock(Protocol):
    """Clock of a store. Stores on a server use the server's clock unless a test passes another one."""

    def now(self) -> datetime:
        """Return the current time as an aware datetime in UTC. Called from any thread."""
        ...


def later(moment: datetime, seconds: float) -> datetime:
    """Return *moment* plus *seconds*, at most the end of the year 9999."""
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)
