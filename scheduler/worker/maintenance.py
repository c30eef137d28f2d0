"""
Periodic calls to the store: renew leases, promote due jobs, recover expired leases, trim finished jobs.

Each class has a duty: a method that a thread calls repeatedly and that returns the seconds until the next call.
"""

from __future__ import annotations

import math
import random
import time
from typing import Final

from scheduler.abilities import WAKE_HORIZON
from scheduler.errors import BackendError, BackendUnavailable
from scheduler.worker.inflight import InFlight
from scheduler.worker.threads import Run
from scheduler.worker.wake_event import WakeEvent

_PROMOTED = _TRIMMED = 1_000  # jobs per call
_POLL_JITTER = (0.8, 1.2)
_SHORTEST_POLL = 0.001  # seconds: no busy loop when a due time has passed and nothing is moved
# A waiter need not report jobs due later than the horizon. Polls at half of it find each of them before it is due.
_LONGEST_POLL: Final = WAKE_HORIZON / 2
# Two calls may return due times of one job that differ by so many seconds: calls take time, and clocks are set forward.
_SAME_MOMENT: Final = 0.1

_RECOVERED = 5_000  # jobs per call: each call reads all leases, so many small calls would take long
_TRIM_EVERY = 60.0  # seconds
_RECOVER_JITTER = (0.8, 1.0)  # only downwards: recover_interval is a promised maximum
_AFTER_EXPIRY = 0.01  # seconds: workers that renew a moment late keep their jobs


class Heartbeat:
    """Renewal of all leases that the worker holds."""

    def __init__(self, run: Run, inflight: InFlight) -> None:
        self._run = run
        self._inflight = inflight

    def beat(self) -> float:
        """Renew all leases. If the store refuses a lease, its job is lost to this worker."""
        end = time.monotonic() + self._run.config.heartbeat_interval
        leases = self._inflight.renewable()
        if leases:
            renewal = self._run.outage.call("renew", self._run.backend.renew, leases, self._run.config.lease_duration)
            self._run.metrics.renewed(len(leases) - len(renewal.refused))
            # Leases that were settled since `renewable` was called are refused too, but they are not lost.
            lost = self._inflight.mark_lost(renewal.refused)
            if lost:
                self._run.metrics.lost("renew", lost)
                self._run.logger.warning("%d leases were lost: other workers hold the jobs, or they are finished", lost)
                self._run.wake_event.set()
        return end - time.monotonic()


class Promoter:
    """Promotion of due jobs."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._due = math.inf  # the next due time that the last call returned, by time.monotonic()
        self.wake_event = WakeEvent()
        """Ends the pause between two calls."""
        self._wakeups = 0  # calls of `sooner`; written by one thread
        self._wakeups_seen = 0

    def sooner(self) -> None:
        """Promote now: a job may be due earlier than the last call returned. Called on one thread only."""
        self._wakeups += 1  # before the thread that reads it is woken
        self.wake_event.set()

    def promote(self) -> float:
        """Promote due jobs and wake the pump for them. Return the seconds until the next due time or poll."""
        wakeups, before = self._wakeups, time.monotonic()
        call, backend = self._run.outage.call, self._run.backend
        promotion = call("promote_due", backend.promote_due, self._run.config.queues, _PROMOTED)
        if promotion.moved:
            self._run.metrics.promoted(promotion.moved)
        due = math.inf if promotion.next_due is None else before + promotion.next_due
        # Wake the pump even if no job was moved: another worker may have promoted it, and a store that derives
        # readiness moves none. A due time has passed if this call returns a later one. A job that caused a wake-up may
        # already be due.
        passed = time.monotonic() >= self._due or due > self._due + _SAME_MOMENT
        if promotion.moved or passed or wakeups != self._wakeups_seen:
            self._run.wake_event.set()
        self._due, self._wakeups_seen = due, wakeups
        fallback = min(self._run.config.poll_interval * random.uniform(*_POLL_JITTER), _LONGEST_POLL)
        if promotion.next_due is None or promotion.next_due > fallback:
            return fallback
        return promotion.next_due if promotion.moved else max(promotion.next_due, _SHORTEST_POLL)


class Recoverer:
    """Recovery of jobs whose leases have expired, and trimming of finished jobs beyond their retention."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._next_trim = time.monotonic() + _TRIM_EVERY * random.uniform(0.0, 1.0)
        self._due = math.inf  # when the next call is due, by time.monotonic()

    def recover(self) -> float:
        """Recover expired leases, and trim once a minute. Return the seconds until the next call."""
        now = time.monotonic()
        if now - self._due > self._run.config.heartbeat_interval:
            self._run.outage.process_was_suspended()  # this worker's leases must be renewed first
        pause = self._run.outage.recovery_pause() or self._recover()
        self._due = time.monotonic() + pause
        return pause

    def _recover(self) -> float:
        call, backend = self._run.outage.call, self._run.backend
        try:
            recovery = call("recover_expired", backend.recover_expired, self._run.config.queues, _RECOVERED)
        except BackendUnavailable:
            raise
        except BackendError:  # one damaged queue may cause it for ever; jobs must be trimmed all the same
            if time.monotonic() >= self._next_trim:
                self._trim()
            raise
        if recovery.ready or recovery.dead:
            self._run.metrics.recovered(recovery)
            self._run.logger.warning(
                "Leases expired: %d jobs are ready again, %d are dead", recovery.ready, recovery.dead
            )
            self._run.wake_event.set()
        if time.monotonic() >= self._next_trim and self._trim():
            return _AFTER_EXPIRY
        longest = self._run.config.recover_interval * random.uniform(*_RECOVER_JITTER)
        if recovery.next_expiry is None:
            return longest
        return min(longest, recovery.next_expiry + _AFTER_EXPIRY)

    def _trim(self) -> bool:
        """Trim a batch. Return True if more may remain, to trim them soon: trimming must keep up with finished jobs."""
        trimmed = self._run.outage.call("trim", self._run.backend.trim, self._run.config.queues, _TRIMMED)
        if trimmed >= _TRIMMED:
            return True
        self._next_trim = time.monotonic() + _TRIM_EVERY
        return False
