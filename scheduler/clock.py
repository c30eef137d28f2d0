"""The machine's clock, and what a test may hand in instead of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
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


def later(moment: datetime, seconds: float) -> datetime:
    """*seconds* after *moment*, at most the last moment of the year 9999, which only a clock near it reaches."""
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)
