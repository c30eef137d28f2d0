"""Random sequences of moves, compared with the model."""

from __future__ import annotations

from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from scheduler.testing.harness import OpenBackend
from scheduler.testing.state_machine import BackendMachine, Harnesses


class SequencesContract:
    """
    Random sequences of moves.

    Attributes:
        examples: The number of sequences. None = that of the hypothesis profile.
        steps: The maximum number of steps per sequence. None = that of the hypothesis profile.
    """

    examples: ClassVar[int | None] = None
    steps: ClassVar[int | None] = None

    def test_any_sequence_of_moves_agrees_with_the_model(self, open_backend: OpenBackend) -> None:
        with Harnesses(open_backend) as harnesses:
            if not harnesses.have_clocks:
                pytest.skip("needs a manual clock, and the backend has no assignable `clock`")
            profile = settings()
            run_state_machine_as_test(
                lambda: BackendMachine(harnesses.take, harnesses.give_back),  # type: ignore[arg-type]  # the stub expects a class
                settings=settings(
                    max_examples=self.examples or profile.max_examples,
                    stateful_step_count=self.steps or profile.stateful_step_count,
                    deadline=None,  # a slow store on a loaded machine is no failure
                    suppress_health_check=[HealthCheck.too_slow],
                ),
            )
