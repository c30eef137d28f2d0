"""
Moments as whole microseconds since 1970 in UTC.

They are exact from the year 1 to 9999 whatever the time zone of the session, and are compared as plain integers.
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
"""In microseconds: a job that is due later than this wakes nobody when it is stored."""


def to_micros(moment: datetime) -> int:
    """Return microseconds since 1970."""
    return (moment - EPOCH) // MICROSECOND


@lru_cache(1_024)
def from_micros(micros: int) -> datetime:
    """Return the moment in UTC. Cached, since many jobs share theirs: stored together, or leased until the same one."""
    return EPOCH + timedelta(microseconds=micros)


def later(now: int, seconds: float) -> int:
    """Return the moment *seconds* after *now*, never earlier than asked for, at most the last one of a datetime."""
    return min(LATEST, now - int(-seconds * 1_000_000 // 1))
