"""
The base class of all rules, which compares a backend with the model after each step.

Time advances in half seconds, and leases last an odd number of quarter seconds. So no lease ends exactly when it is
checked, and all times are exact in stores that keep milliseconds.
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
"""Few ids, so that they are often used again."""

T = TypeVar("T")

ids = st.sampled_from(IDS)
queues = st.integers(0, 1)  # the index of one of the two queues
limits = st.sampled_from([1, 2, 3, 100])
picks = st.lists(st.integers(0, 30), min_size=1, max_size=4)  # indexes into a list, modulo its length


class Drive(RuleBasedStateMachine):
    """Runs the same moves on two new queues of a backend and on the model."""

    def __init__(
        self, take: Callable[[Retention], BackendHarness], give_back: Callable[[BackendHarness], None]
    ) -> None:
        super().__init__()
        self._take = take
        self._give_back = give_back
        self.given: list[Lease] = []  # every lease that was given out, stale ones included
        self.asked: list[NewJob] = []

    def take(self, retention: Retention) -> None:
        """Take a harness with this retention, and make two new queues."""
        self.harness = self._take(retention)
        assert self.harness.clock is not None, "the model needs a manual clock"
        self.clock = self.harness.clock
        self.queues = [self.harness.new_queue(), self.harness.new_queue()]
        versions = {row.queue: row.version for row in self.harness.backend.stats(self.queues)}
        self.model = Model(retention, versions)

    @invariant()
    def agrees(self) -> None:
        """Promote due jobs, trim jobs whose retention has ended, and compare every read."""
        self.harness.promote(*self.queues)
        self.harness.trim(*self.queues)
        self.model.promote(self.now)
        self.model.trim(self.now)
        check_agreement(self.harness, self.model, self.queues, IDS, self.now)

    def teardown(self) -> None:
        """Check the invariants, which also empties the queues, unless the sequence has failed already."""
        if not hasattr(self, "harness"):
            return
        try:
            if sys.exc_info()[0] is None:
                check_invariants(self.harness, self.queues)
        finally:
            self._give_back(self.harness)

    @property
    def now(self) -> datetime:
        """Return the time of the store's clock."""
        return self.clock.now()


def pick(items: Sequence[T], places: Sequence[int]) -> list[T]:
    """Return the *items* at *places*, counted from the end and modulo their number. Empty if there are no items."""
    return [items[-1 - place % len(items)] for place in places] if items else []


def check_refused(result: Sequence[Lease], expected: Sequence[Lease]) -> None:
    """Check that the refused leases are the *expected* ones, each as often as it was passed."""
    assert Counter(result) == Counter(expected), "exactly the leases that are not held must be refused"
