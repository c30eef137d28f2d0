"""Brings back the jobs of workers that have vanished."""

from __future__ import annotations

import math
import random
import time

from scheduler.worker.run import Run

_BATCH = 1_000
_RECOVERED = 5_000  # a call: each looks through all leases once, so that small ones take long where many have expired
_TRIM_EVERY = 60.0  # seconds
_JITTER = (0.8, 1.0)  # downwards only: recover_interval is a promise
_SHORTEST_PAUSE = 0.01  # seconds after an expiry, so that holders who are a moment late keep their jobs


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
            return _SHORTEST_PAUSE
        longest = self._run.config.recover_interval * random.uniform(*_JITTER)
        if recovery.next_expiry is None:
            return longest
        return min(longest, recovery.next_expiry + _SHORTEST_PAUSE)

    def _trim(self) -> bool:
        """Trim a batch; True if more may wait: jobs must not finish faster than they are trimmed."""
        with self._run.outage.calling("trim"):
            trimmed = self._run.backend.trim(self._run.config.queues, _BATCH)
        if trimmed >= _BATCH:
            return True
        self._next_trim = time.monotonic() + _TRIM_EVERY
        return False
