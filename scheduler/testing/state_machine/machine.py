"""The state machine, combined from the rules of the other modules."""

from __future__ import annotations

from scheduler.testing.state_machine.arrivals import Arrivals
from scheduler.testing.state_machine.operating import Operating
from scheduler.testing.state_machine.versions import Versions


class BackendMachine(Arrivals, Operating, Versions):
    """
    The state machine of one sequence. take: returns a harness with a manual clock and the given retention.

    give_back: called with that harness after the sequence.
    """
