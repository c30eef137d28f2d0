"""A clock that only a test advances."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

from scheduler.limits import check_moment

START = datetime(2030, 1, 1, tzinfo=UTC)


class ManualClock:
    """
    Hand it to a backend as its `clock`. Safe in any thread.

    It moves nothing by itself: after `advance`, call `promote_due` or `recover_expired` (a running worker does).
    """

    def __init__(self, start: datetime = START) -> None:
        self._lock = threading.Lock()  # guards _now: advance reads and writes it
        self._now = check_moment("start", start)

    def now(self) -> datetime:
        """The moment it was last moved to, aware, in UTC."""
        return self._now

    def advance(self, seconds: float) -> datetime:
        """Move by *seconds*, to the microsecond, and return the new moment. Negative: the clock is set back."""
        with self._lock:
            self._now += timedelta(seconds=seconds)
            return self._now

    def set(self, moment: datetime) -> None:
        """Move to *moment*, which must be aware."""
        checked = check_moment("moment", moment)
        with self._lock:
            self._now = checked

    def __repr__(self) -> str:
        return f"ManualClock({self._now.isoformat()})"
