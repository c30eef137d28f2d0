"""
Random sequences of moves, compared with a model of plain dicts after each step (needs hypothesis).

`BackendContract` runs it; by hand, with `rigs` = `Rigs(open_backend)`:
``run_state_machine_as_test(lambda: BackendMachine(rigs.take, rigs.give_back))``.
"""

from scheduler.testing.state_machine.machine import BackendMachine
from scheduler.testing.state_machine.rigs import Rigs

__all__ = ["BackendMachine", "Rigs"]
