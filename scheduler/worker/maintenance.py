"""Makes jobs ready: those that are due, and those whose leases have expired. Trims what retention no longer keeps."""

from __future__ import annotations

import math
import random
import time
from typing import Final

from scheduler.abilities import WAKE_HORIZON
from scheduler.worker.threads import Run
from scheduler.worker.wake_event import WakeEvent

_PROMOTED = _TRIMMED = 1_000  # jobs a call
_POLL_JITTER = (0.8, 1.2)
_SHORTEST_POLL = 0.001  # seconds: a due time that comes and nothing that moves must not make it spin
# A waiter may stay silent about jobs due later than the horizon: each is then seen by a call before it is due.
_LONGEST_POLL: Final = WAKE_HORIZON / 2
# Seconds: two calls that tell of the same job may differ so much by their own duration, and by a clock set forward.
_SAME_MOMENT: Final = 0.1

_RECOVERED = 5_000  # a call: each looks through all leases once, so that small ones take long where many have expired
_TRIM_EVERY = 60.0  # seconds
_RECOVER_JITTER = (0.8, 1.0)  # downwards only: recover_interval is a promise
_AFTER_EXPIRY = 0.01  # seconds after an expiry, so that holders who are a moment late keep their jobs


class Promoter:
    """`promote` is the duty of the promoter's thread and returns the seconds until the next due time, or a poll."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._due = math.inf  # the earliest moment of the next due time that was told, by time.monotonic()
        self.wake_event = WakeEvent()
        """Ends the pause between two calls."""
        self._news = 0  # wake-ups because of a job that is due sooner; counted by the thread that listens
        self._news_seen = 0

    def sooner(self) -> None:
        """Promote now: work may be due sooner than the last call said. One thread calls."""
        self._news += 1  # before the thread is woken, which looks at it
        self.wake_event.set()

    def promote(self) -> float:
        """Promote what is due and ring the pump for it."""
        news, before = self._news, time.monotonic()
        with self._run.outage.calling("promote_due"):
            promotion = self._run.backend.promote_due(self._run.config.queues, _PROMOTED)
        if promotion.moved:
            self._run.metrics.promoted(promotion.moved)
        due = math.inf if promotion.next_due is None else before + promotion.next_due
        # Whatever was moved: another worker may have promoted, and a store that derives ready moves nothing. A due
        # time has passed when this call tells of a later one; a job that caused a wake-up may be due already.
        passed = time.monotonic() >= self._due or due > self._due + _SAME_MOMENT
        if promotion.moved or passed or news != self._news_seen:
            self._run.wake_event.set()
        self._due, self._news_seen = due, news
        fallback = min(self._run.config.poll_interval * random.uniform(*_POLL_JITTER), _LONGEST_POLL)
        if promotion.next_due is None or promotion.next_due > fallback:
            return fallback
        return promotion.next_due if promotion.moved else max(promotion.next_due, _SHORTEST_POLL)


class Recoverer:
    """`recover` is the duty of the recoverer's thread and answers the seconds until the next one."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._next_trim = time.monotonic() + _TRIM_EVERY * random.uniform(0.0, 1.0)
        self._due = math.inf  # when the next turn is meant to be, by time.monotonic()

    def recover(self) -> float:
        """Recover expired leases, then trim what retention no longer keeps, once a minute."""
        now = time.monotonic()
        if now - self._due > self._run.config.heartbeat_interval:
            self._run.outage.process_was_suspended()  # a stopped process: its own leases are to be renewed first
        pause = self._run.outage.recovery_pause() or self._recover()
        self._due = time.monotonic() + pause
        return pause

    def _recover(self) -> float:
        with self._run.outage.calling("recover_expired"):
            recovery = self._run.backend.recover_expired(self._run.config.queues, _RECOVERED)
        if recovery.ready or recovery.dead:
            self._run.metrics.recovered(recovery)
            self._run.logger.warning(
                "Leases ran out: %d jobs are ready again, %d are dead", recovery.ready, recovery.dead
            )
            self._run.wake_event.set()
        if time.monotonic() >= self._next_trim and self._trim():
            return _AFTER_EXPIRY
        longest = self._run.config.recover_interval * random.uniform(*_RECOVER_JITTER)
        if recovery.next_expiry is None:
            return longest
        return min(longest, recovery.next_expiry + _AFTER_EXPIRY)

    def _trim(self) -> bool:
        """Trim a batch; True if more may wait: jobs must not finish faster than they are trimmed."""
        with self._run.outage.calling("trim"):
            trimmed = self._run.backend.trim(self._run.config.queues, _TRIMMED)
        if trimmed >= _TRIMMED:
            return True
        self._next_trim = time.monotonic() + _TRIM_EVERY
        return False
