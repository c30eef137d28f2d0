"""
Random sequences of moves, compared with a model after each step. Needs hypothesis.

`BackendContract` runs them. To run them separately, with `harnesses` = `Harnesses(open_backend)`:
``run_state_machine_as_test(lambda: BackendMachine(harnesses.take, harnesses.give_back))``.
"""

from scheduler.testing.state_machine.harnesses import Harnesses
from scheduler.testing.state_machine.machine import BackendMachine

__all__ = ["BackendMachine", "Harnesses"]
