"""The machine put together: each file holds the rules of one duty."""

from __future__ import annotations

from scheduler.testing.state_machine.arrivals import Arrivals
from scheduler.testing.state_machine.operating import Operating
from scheduler.testing.state_machine.versions import Versions


class BackendMachine(Arrivals, Operating, Versions):
    """
    Made anew for each sequence. take: returns a harness, with a manual clock, whose backend has the given retention.

    give_back: called with that harness when the sequence has ended.
    """
