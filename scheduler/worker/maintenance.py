"""Makes jobs ready: those that are due, and those whose leases have expired. Trims what retention no longer keeps."""

from __future__ import annotations

import math
import random
import time
from typing import Final

from scheduler.abilities import WAKE_HORIZON
from scheduler.errors import BackendError, BackendUnavailable
from scheduler.worker.threads import Run
from scheduler.worker.wake_event import WakeEvent

_PROMOTED = _TRIMMED = 1_000  # jobs a call
_POLL_JITTER = (0.8, 1.2)
_SHORTEST_POLL = 0.001  # seconds: it must not spin when a due time has come and nothing is moved
# A waiter need not report jobs due later than the horizon: with this, a call sees each of them before it is due.
_LONGEST_POLL: Final = WAKE_HORIZON / 2
# Seconds by which the due times of one job may differ in two calls: by their own duration, and a clock set forward.
_SAME_MOMENT: Final = 0.1

_RECOVERED = 5_000  # jobs a call: each goes through all leases once, so that small calls take long if many expired
_TRIM_EVERY = 60.0  # seconds
_RECOVER_JITTER = (0.8, 1.0)  # only downwards: recover_interval is a promise
_AFTER_EXPIRY = 0.01  # seconds: workers that renew a moment late keep their jobs


class Promoter:
    """`promote` is the duty of the promoter's thread and returns the seconds until the next due time, or poll."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._due = math.inf  # the next due time that the last call returned, by time.monotonic()
        self.wake_event = WakeEvent()
        """Ends the pause between two calls."""
        self._wakeups = 0  # counts wake-ups because of a job that is due sooner; written by one thread
        self._wakeups_seen = 0

    def sooner(self) -> None:
        """Promote now: a job may be due sooner than the last call returned. One thread calls this."""
        self._wakeups += 1  # before the thread is woken, which reads it
        self.wake_event.set()

    def promote(self) -> float:
        """Promote the jobs that are due, and wake the pump for them."""
        wakeups, before = self._wakeups, time.monotonic()
        with self._run.outage.calling("promote_due"):
            promotion = self._run.backend.promote_due(self._run.config.queues, _PROMOTED)
        if promotion.moved:
            self._run.metrics.promoted(promotion.moved)
        due = math.inf if promotion.next_due is None else before + promotion.next_due
        # Whether or not jobs were moved: another worker may have promoted them, and a store that derives ready moves
        # none. A due time has passed if this call returns a later one; a job that caused a wake-up may be due already.
        passed = time.monotonic() >= self._due or due > self._due + _SAME_MOMENT
        if promotion.moved or passed or wakeups != self._wakeups_seen:
            self._run.wake_event.set()
        self._due, self._wakeups_seen = due, wakeups
        fallback = min(self._run.config.poll_interval * random.uniform(*_POLL_JITTER), _LONGEST_POLL)
        if promotion.next_due is None or promotion.next_due > fallback:
            return fallback
        return promotion.next_due if promotion.moved else max(promotion.next_due, _SHORTEST_POLL)


class Recoverer:
    """`recover` is the duty of the recoverer's thread and returns the seconds until the next call."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._next_trim = time.monotonic() + _TRIM_EVERY * random.uniform(0.0, 1.0)
        self._due = math.inf  # when the next call is due, by time.monotonic()

    def recover(self) -> float:
        """Recover expired leases. Once a minute, also trim the jobs that retention no longer keeps."""
        now = time.monotonic()
        if now - self._due > self._run.config.heartbeat_interval:
            self._run.outage.process_was_suspended()  # its own leases must be renewed first
        pause = self._run.outage.recovery_pause() or self._recover()
        self._due = time.monotonic() + pause
        return pause

    def _recover(self) -> float:
        try:
            with self._run.outage.calling("recover_expired"):
                recovery = self._run.backend.recover_expired(self._run.config.queues, _RECOVERED)
        except BackendUnavailable:
            raise
        except BackendError:  # such as of one damaged queue, for ever: jobs are trimmed nevertheless
            if time.monotonic() >= self._next_trim:
                self._trim()
            raise
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
        """Trim a batch. True if more may wait: jobs must not finish faster than they are trimmed."""
        with self._run.outage.calling("trim"):
            trimmed = self._run.backend.trim(self._run.config.queues, _TRIMMED)
        if trimmed >= _TRIMMED:
            return True
        self._next_trim = time.monotonic() + _TRIM_EVERY
        return False
