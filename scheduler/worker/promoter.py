"""Makes jobs ready the moment they are due."""

from __future__ import annotations

import random

from scheduler.worker.run import Run

_BATCH = 1_000
_JITTER = (0.8, 1.2)
_SHORTEST_PAUSE = 0.001  # seconds: a due time that comes and nothing that moves must not make it spin


class Promoter:
    """`promote` is the duty of the promoter's thread and answers the seconds until the next due time, or a poll."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._awaited = False

    def promote(self) -> float:
        """Promote what is due and ring the pump for it."""
        with self._run.outage.calling("promote_due"):
            promotion = self._run.backend.promote_due(self._run.config.queues, _BATCH)
        if promotion.moved:
            self._run.metrics.promoted(promotion.moved)
        # Rung for a due time that was waited for, whatever was moved: another worker may have promoted, and a store
        # that derives ready moves nothing.
        if promotion.moved or self._awaited:
            self._run.doorbell.ring()
        fallback = self._run.config.poll_interval * random.uniform(*_JITTER)
        if promotion.next_due is None or promotion.next_due > fallback:
            self._awaited = False
            return fallback
        self._awaited = True
        return promotion.next_due if promotion.moved else max(promotion.next_due, _SHORTEST_PAUSE)
