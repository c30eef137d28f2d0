"""
Conversion of moments to whole microseconds since 1970 in UTC, as the tables store them.

These are exact from the year 1 to 9999, do not depend on the session's time zone, and are compared as plain integers.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from scheduler import abilities

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
EARLIEST: Final = (datetime.min.replace(tzinfo=UTC) - EPOCH) // MICROSECOND
LATEST: Final = (datetime.max.replace(tzinfo=UTC) - EPOCH) // MICROSECOND

WAKE_HORIZON: Final = int(abilities.WAKE_HORIZON * 1_000_000)
"""`abilities.WAKE_HORIZON` in microseconds. Storing a job that is due later than this wakes no waiter."""


def to_micros(moment: datetime) -> int:
    """Return *moment* in microseconds since 1970."""
    return (moment - EPOCH) // MICROSECOND


@lru_cache(1_024)
def from_micros(micros: int) -> datetime:
    """Return the moment in UTC. Cached, because jobs that were stored or leased together have the same moments."""
    return EPOCH + timedelta(microseconds=micros)


def later(now: int, seconds: float) -> int:
    """Return the moment *seconds* after *now*, rounded up to a microsecond and limited to `LATEST`."""
    return min(LATEST, now - int(-seconds * 1_000_000 // 1))
