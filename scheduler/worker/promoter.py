"""Makes jobs ready the moment they are due."""

from __future__ import annotations

import math
import random
import time
from typing import Final

from scheduler.abilities import WAKE_HORIZON
from scheduler.worker.run import Run

_BATCH = 1_000
_JITTER = (0.8, 1.2)
_SHORTEST_PAUSE = 0.001  # seconds: a due time that comes and nothing that moves must not make it spin
# A waiter may stay silent about jobs due later than the horizon: each is then seen by a call before it is due.
_LONGEST_PAUSE: Final = WAKE_HORIZON / 2
# Seconds: two calls that tell of the same job may differ so much by their own duration, and by a clock set forward.
_SAME_MOMENT: Final = 0.1


class Promoter:
    """`promote` is the duty of the promoter's thread and returns the seconds until the next due time, or a poll."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._due = math.inf  # the earliest moment of the next due time that was told, by time.monotonic()
        self._news = 0  # wake-ups because of a job that is due sooner; counted by the thread that listens
        self._news_seen = 0

    def sooner(self) -> None:
        """Work may be due sooner than the last call said. Change this before the thread is woken. One thread calls."""
        self._news += 1

    def promote(self) -> float:
        """Promote what is due and ring the pump for it."""
        news, before = self._news, time.monotonic()
        with self._run.outage.calling("promote_due"):
            promotion = self._run.backend.promote_due(self._run.config.queues, _BATCH)
        if promotion.moved:
            self._run.metrics.promoted(promotion.moved)
        due = math.inf if promotion.next_due is None else before + promotion.next_due
        # Whatever was moved: another worker may have promoted, and a store that derives ready moves nothing. A due
        # time has passed when this call tells of a later one; a job that caused a wake-up may be due already.
        passed = time.monotonic() >= self._due or due > self._due + _SAME_MOMENT
        if promotion.moved or passed or news != self._news_seen:
            self._run.wake_event.set()
        self._due, self._news_seen = due, news
        fallback = min(self._run.config.poll_interval * random.uniform(*_JITTER), _LONGEST_PAUSE)
        if promotion.next_due is None or promotion.next_due > fallback:
            return fallback
        return promotion.next_due if promotion.moved else max(promotion.next_due, _SHORTEST_PAUSE)
