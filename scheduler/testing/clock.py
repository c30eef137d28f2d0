"""A clock that only moves when a test moves it."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

from scheduler.limits import check_moment

START = datetime(2030, 1, 1, tzinfo=UTC)


class ManualClock:
    """
    A clock for tests, which stands still until it is advanced. Thread-safe.

    Pass it to a backend as its `clock`. Advancing the clock does not move any jobs: call `promote_due` or
    `recover_expired` afterwards. A running worker calls them by itself.
    """

    def __init__(self, start: datetime = START) -> None:
        """Start at *start*. Raises InvalidJob if it has no time zone."""
        self._lock = threading.Lock()  # guards _now: advance reads and writes it
        self._now = check_moment("start", start)

    def now(self) -> datetime:
        """Return the current time of this clock, in UTC."""
        return self._now

    def advance(self, seconds: float) -> datetime:
        """Advance the clock by *seconds*, to the microsecond, and return the new time. Negative: set it back."""
        with self._lock:
            self._now += timedelta(seconds=seconds)
            return self._now

    def set(self, moment: datetime) -> None:
        """Set the clock to *moment*. Raises InvalidJob if it has no time zone."""
        checked = check_moment("moment", moment)
        with self._lock:
            self._now = checked

    def __repr__(self) -> str:
        return f"ManualClock({self._now.isoformat()})"
