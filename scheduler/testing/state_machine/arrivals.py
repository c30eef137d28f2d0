"""Rules that enqueue jobs and let time pass."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TypedDict

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from scheduler.jobs import NewJob, Priority
from scheduler.queues import Retention
from scheduler.testing.state_machine.drive import RETENTIONS, Drive, ids, limits, pick, picks, queues


class Asked(TypedDict):
    """The drawn values of a new job."""

    id: str
    queue: int
    delay: float | None
    priority: Priority
    max_retries: int
    payload: bytes


_asked = st.fixed_dictionaries(
    {
        "id": ids,
        "queue": queues,
        "delay": st.sampled_from([None, None, 0.0, -50.0, 0.5, 2.0, 10.0]),  # negative: a run_at in the past
        "priority": st.sampled_from(Priority),
        "max_retries": st.integers(0, 2),
        "payload": st.binary(max_size=3),
    }
)


class Arrivals(Drive):
    """Rules for enqueue, promote_due and trim."""

    @initialize(retention=st.sampled_from(RETENTIONS), asked=st.lists(_asked, min_size=3, max_size=6))
    def begin(self, retention: Retention, asked: list[Asked]) -> None:
        """Begin with some jobs, so that every rule has jobs to work on."""
        self.take(retention)
        self._enqueue([self._new(one) for one in asked])

    @rule(asked=st.lists(_asked, min_size=1, max_size=3))
    def enqueue(self, asked: list[Asked]) -> None:
        """Enqueue new NewJob objects, whose ids may be taken."""
        self._enqueue([self._new(one) for one in asked])

    @rule(places=picks)
    def enqueue_again(self, places: list[int]) -> None:
        """Enqueue the same NewJob objects again, as after a lost reply. Their jobs may be in any state."""
        self._enqueue(pick(self.asked, places))

    @rule(seconds=st.sampled_from([0.5, 1.0, 5.0, 12.0, 40.0]), limit=limits)
    def pass_time(self, seconds: float, limit: int) -> None:
        """Advance the clock, then promote and trim once with a limit. The invariant does the rest."""
        self.clock.advance(seconds)
        assert self.harness.backend.promote_due(self.queues, limit).moved <= limit
        assert self.harness.backend.trim(self.queues, limit) <= limit

    def _new(self, asked: Asked) -> NewJob:
        delay = asked["delay"]
        past = delay is not None and delay < 0.0
        new = NewJob(
            type="contract",
            id=asked["id"],
            queue=self.queues[asked["queue"]],
            run_at=self.now + timedelta(seconds=delay) if past and delay else None,
            delay=None if past else delay,
            priority=asked["priority"],
            max_retries=asked["max_retries"],
            payload=asked["payload"],
        )
        self.asked.append(new)
        return new

    def _enqueue(self, jobs: Sequence[NewJob]) -> None:
        results = self.harness.backend.enqueue(jobs)
        for new, result in zip(jobs, results, strict=True):
            self.model.enqueue(new, result, self.now)
