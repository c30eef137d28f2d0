"""Brings back the jobs of workers that have vanished."""

from __future__ import annotations

import random
import time

from scheduler.worker.run import Run

_BATCH = 1_000
_TRIM_EVERY = 60.0  # seconds
_JITTER = (0.8, 1.0)  # downwards only: recover_interval is a promise
_SHORTEST_PAUSE = 0.01  # seconds after an expiry, so that holders who are a moment late keep their jobs


class Recoverer:
    """`recover` is the duty of the recoverer's thread and answers the seconds until the next one."""

    def __init__(
        self,
        run: Run,
    ) -> None:
        self._run = run
        self._next_trim = time.monotonic() + _TRIM_EVERY * random.uniform(0.0, 1.0)

    def recover(self) -> float:
        """Recover expired leases, then trim what retention no longer keeps, once a minute."""
        pause = self._run.outage.recovery_pause()
        if pause > 0.0:
            return pause
        with self._run.outage.calling("recover_expired"):
            recovery = self._run.backend.recover_expired(self._run.config.queues, _BATCH)
        if recovery.ready or recovery.dead:
            self._run.metrics.recovered(recovery)
            self._run.logger.warning(
                "Leases ran out: %d jobs are ready again, %d are dead", recovery.ready, recovery.dead
            )
            self._run.doorbell.ring()
        if time.monotonic() >= self._next_trim:
            self._trim()
        longest = self._run.config.recover_interval * random.uniform(*_JITTER)
        if recovery.next_expiry is None:
            return longest
        return min(longest, recovery.next_expiry + _SHORTEST_PAUSE)

    def _trim(self) -> None:
        with self._run.outage.calling("trim"):
            trimmed = self._run.backend.trim(self._run.config.queues, _BATCH)
        # A full batch: more may wait, and the next recovery goes on with it.
        if trimmed < _BATCH:
            self._next_trim = time.monotonic() + _TRIM_EVERY
