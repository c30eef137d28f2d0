"""
For tests of backends and of programs that use this library.

Light to import: pytest and hypothesis are needed by `scheduler.testing.contract` and `scheduler.testing.state_machine`
alone, which are imported by name (extra `testing`).
"""

from scheduler.testing.clock import ManualClock
from scheduler.testing.faults import Faults, Gate
from scheduler.testing.faulty import FaultyBackend, faulty

__all__ = ["Faults", "FaultyBackend", "Gate", "ManualClock", "faulty"]
