"""
The base of all rules: a backend and the model side by side, compared after each step.

Time moves on a grid by halves of a second and leases last for odd quarters, so that no lease ends at the
very moment at which it is looked at, and every moment survives a store that keeps milliseconds.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant

from scheduler.jobs import NewJob
from scheduler.leases import Lease
from scheduler.queues import Retention
from scheduler.testing.harness import BackendHarness
from scheduler.testing.invariants import check_invariants
from scheduler.testing.state_machine.agreement import check_agreement
from scheduler.testing.state_machine.model import Model

RETENTIONS = (
    Retention(succeeded=20.0, cancelled=10.0, dead=30.0),
    Retention(),
    Retention(succeeded=5.0, cancelled=0.0, dead=0.0),
)
IDS = tuple("abcdefgh")
"""A small pool, so that ids meet."""

T = TypeVar("T")

ids = st.sampled_from(IDS)
queues = st.integers(0, 1)  # which of the two
limits = st.sampled_from([1, 2, 3, 100])
picks = st.lists(st.integers(0, 30), min_size=1, max_size=4)  # of what there is, counted round and round


class Drive(RuleBasedStateMachine):
    """Two fresh queues of one backend, driven beside the model."""

    def __init__(
        self, take: Callable[[Retention], BackendHarness], give_back: Callable[[BackendHarness], None]
    ) -> None:
        super().__init__()
        self._take = take
        self._give_back = give_back
        self.given: list[Lease] = []  # every lease that was given out, stale ones included
        self.asked: list[NewJob] = []

    def take(self, retention: Retention) -> None:
        """A harness with this retention, and two queues that it has never seen."""
        self.harness = self._take(retention)
        assert self.harness.clock is not None, "the model needs a clock that stops"
        self.clock = self.harness.clock
        self.queues = [self.harness.new_queue(), self.harness.new_queue()]
        versions = {row.queue: row.version for row in self.harness.backend.stats(self.queues)}
        self.model = Model(retention, versions)

    @invariant()
    def agrees(self) -> None:
        """Promote what is due, trim what has outlived its retention, and compare every read."""
        self.harness.promote(*self.queues)
        self.harness.trim(*self.queues)
        self.model.promote(self.now)
        self.model.trim(self.now)
        check_agreement(self.harness, self.model, self.queues, IDS, self.now)

    def teardown(self) -> None:
        """The invariants, which also empty the queues, unless something has failed already."""
        if not hasattr(self, "harness"):
            return
        try:
            if sys.exc_info()[0] is None:
                check_invariants(self.harness, self.queues)
        finally:
            self._give_back(self.harness)

    @property
    def now(self) -> datetime:
        """The store's moment."""
        return self.clock.now()


def pick(items: Sequence[T], places: Sequence[int]) -> list[T]:
    """Those of *items* at *places*, the newest first; none where there are none."""
    return [items[-1 - place % len(items)] for place in places] if items else []


def check_refused(result: Sequence[Lease], expected: Sequence[Lease]) -> None:
    """Each lease that is not held is refused as often as it was handed in."""
    assert Counter(result) == Counter(expected), "the leases that are not held are refused, and no others"
