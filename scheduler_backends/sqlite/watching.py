"""
Detection of commits by any process: first the write to the log, then SQLite's change counter.

The system reports the write before the commit is visible. The commit becomes visible when it has reached the disk,
which takes from a millisecond to half a second. So after a write, the counter is polled at growing intervals. If the
system does not report writes, the counter is polled all the time.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from scheduler.abilities import WakeReason
from scheduler_backends.sql.moments import WAKE_HORIZON
from scheduler_backends.sqlite import inotify
from scheduler_backends.sqlite.store import Store

# Seconds.
_POLL: Final = 0.02  # between two looks if writes are not reported
_IDLE: Final = 2.0  # between two looks if they are, in case a report was lost
_OPEN: Final = 5.0  # the longest time from a write to its commit
_RETRY: Final = 10.0  # until a subscription that failed is tried again
_PER_SECOND: Final = 50.0  # looks that find no work, in the long run
_BURST: Final = 20.0  # such looks that may come faster


class _Pace(NamedTuple):
    """Pauses between the looks after a write: *part* of the time since the write, within two bounds in seconds."""

    part: float
    shortest: float
    longest: float

    def pause(self, age: float) -> float:
        return min(max(age * self.part, self.shortest), self.longest)


_AFTER_WRITE: Final = _Pace(0.1, 0.000_5, 0.05)
# A commit was seen. The write of another commit may have been reported before that look too.
_AFTER_COMMIT: Final = _Pace(0.5, 0.002, 0.25)
# This process wrote, and has notified its own waiters.
_AFTER_OWN: Final = _Pace(0.5, 0.02, 0.25)


class Watch:
    """
    `WakeSource` that looks in new commits for work of some queues.

    Args:
        store: the parts of the backend.
        queues: the names of the queues.
        wake: wakes the thread that waits. Called from other threads.
    """

    def __init__(self, store: Store, queues: Iterable[str], wake: Callable[[], None]) -> None:
        self._store = store
        self._queues = json.dumps(sorted(queues))
        self._wake = wake
        self._subscription: inotify.Subscription | None = None
        self._subscribe_from = 0.0
        self._seen: object = None  # the connection and its change counter at the last look
        self._due: int | None = None  # the next due time, as of the last look
        self._written = -_OPEN  # when the last write was reported
        self._pace = _AFTER_COMMIT
        self._next = 0.0  # when the next look is due
        self._budget, self._budget_at = _BURST, time.monotonic()
        self._events_taken_at = 0.0
        self._spent = 0.0  # of the budget, since work was last found

    def next_look(self, now: float) -> tuple[float, Sequence[int]]:
        """See `WakeSource.next_look`."""
        allowed = self._earliest(now)
        if allowed > now:  # no descriptor: a write must not end this pause
            return min(self._next, allowed) - now, ()
        return max(self._next - now, 0.0), (self._subscription.descriptor,) if self._subscription else ()

    def look(self, now: float) -> WakeReason:
        """See `WakeSource.look`."""
        own = self._store.file.wrote_since(self._events_taken_at)
        if self._take_events(now):
            self._plan_for_write(now, own=own)
        if now < self._next:
            return WakeReason.NONE
        self._budget -= 1.0
        self._spent += 1.0
        before = self._seen
        reason = self._look(now)
        if self._seen != before:
            self._pace = _AFTER_COMMIT
            if self._take_events(now):  # most likely reports of the commit that was just seen
                self._written = now
        if reason:
            self._budget, self._spent = self._budget + self._spent, 0.0
        self._plan(now)
        return reason

    def close(self) -> None:
        """See `WakeSource.close`."""
        self._seen = None
        self._unsubscribe()

    def _take_events(self, now: float) -> bool:
        # Returns whether the log has been written to since the last call.
        if self._subscription is None:
            return False
        self._events_taken_at = now
        try:
            self._subscription.take_events()
        except OSError:  # a job handler has closed the descriptor
            self._subscription.lost = self._subscription.written = True
        written, self._subscription.written = self._subscription.written, False
        return written

    def _plan_for_write(self, now: float, *, own: bool) -> None:
        awaited = self._pace is _AFTER_WRITE and now - self._written < _OPEN
        self._written = now
        if own and not awaited:
            self._pace = _AFTER_OWN
            self._next = min(self._next, now + _AFTER_OWN.shortest)
        else:
            self._pace = _AFTER_WRITE
            self._next = self._earliest(now)

    def _look(self, now: float) -> WakeReason:
        with self._store.file.reading(watching=True) as connection:
            self._subscribe(connection.log, now)
            seen = connection.serial, *connection.execute("PRAGMA data_version").fetchone()
            if seen == self._seen:
                return WakeReason.NONE
            self._seen = seen
            moment = self._store.now()
            parameters = {"queues": self._queues, "now": moment}
            ready, due = connection.execute(self._store.statements.pending_work, parameters).fetchone()
        reason = WakeReason.JOBS_READY if ready else WakeReason.NONE
        if due is not None and due <= moment + WAKE_HORIZON:
            if self._due is None or not moment < self._due <= due:
                reason |= WakeReason.EARLIER_DUE_TIME
            self._due = due
        else:
            self._due = None
        return reason

    def _plan(self, now: float) -> None:
        age = now - self._written
        pause = _IDLE if self._subscription else _POLL
        if age < _OPEN:
            pause = min(pause, self._pace.pause(age))
        self._next = max(now + pause, self._earliest(now))

    def _earliest(self, now: float) -> float:
        # Returns when the budget allows the next look.
        self._budget = min(self._budget + (now - self._budget_at) * _PER_SECOND, _BURST)
        self._budget_at = now
        return now if self._budget >= 1.0 else now + (1.0 - self._budget) / _PER_SECOND

    def _subscribe(self, log: str, now: float) -> None:
        if self._subscription is not None and self._subscription.lost:
            self._unsubscribe()
        if self._subscription is None and now >= self._subscribe_from:
            try:
                self._subscription = inotify.subscribe(log, self._wake)
            except OSError:
                self._subscribe_from = now + _RETRY
            else:  # an earlier write was not reported, and its commit may not be visible yet
                self._written, self._pace = now, _AFTER_COMMIT

    def _unsubscribe(self) -> None:
        if self._subscription is not None:
            with contextlib.suppress(OSError):
                self._subscription.close()
            self._subscription = None
