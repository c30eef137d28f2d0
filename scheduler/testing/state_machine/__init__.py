"""
Random sequences of moves, compared with a model of plain dicts after each step (needs hypothesis).

`BackendContract` runs it; by hand it is ``run_state_machine_as_test(lambda: BackendMachine(rig_for))``.
"""

from scheduler.testing.state_machine.machine import BackendMachine

__all__ = ["BackendMachine"]
