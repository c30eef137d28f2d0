"""Random sequences of moves against the model: what no list of cases thinks of."""

from __future__ import annotations

from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from scheduler.testing.harness import OpenBackend
from scheduler.testing.state_machine import BackendMachine, Harnesses


class SequencesContract:
    """examples, steps: how many sequences are drawn, and how long they get; None = as the hypothesis profile says."""

    examples: ClassVar[int | None] = None
    steps: ClassVar[int | None] = None

    def test_any_sequence_of_moves_agrees_with_the_model(self, open_backend: OpenBackend) -> None:
        with Harnesses(open_backend) as harnesses:
            if not harnesses.have_clocks:
                pytest.skip("needs a manual clock, and the backend has no assignable `clock`")
            profile = settings()
            run_state_machine_as_test(
                lambda: BackendMachine(harnesses.take, harnesses.give_back),  # type: ignore[arg-type]  # the stub asks for a class
                settings=settings(
                    max_examples=self.examples or profile.max_examples,
                    stateful_step_count=self.steps or profile.stateful_step_count,
                    deadline=None,  # a store on a loaded machine is slow at times, which is no failure
                    suppress_health_check=[HealthCheck.too_slow],
                ),
            )
