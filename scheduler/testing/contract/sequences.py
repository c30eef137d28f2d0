"""Random sequences of moves against the model: what no list of cases thinks of."""

from __future__ import annotations

from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from scheduler.queues import Retention
from scheduler.testing.contract.stand import OpenRig
from scheduler.testing.rig import Rig
from scheduler.testing.state_machine import BackendMachine


class SequencesContract:
    """examples, steps: how many sequences are drawn, and how long they get; None = as the hypothesis profile says."""

    examples: ClassVar[int | None] = None
    steps: ClassVar[int | None] = None

    def test_any_sequence_of_moves_agrees_with_the_model(self, open_rig: OpenRig) -> None:
        rigs: dict[Retention, Rig] = {}

        def rig_for(retention: Retention) -> Rig:
            # One backend for all sequences of a retention: each takes fresh queues, and connecting is dear.
            if retention not in rigs:
                rigs[retention] = open_rig(retention)
            return rigs[retention]

        if rig_for(Retention()).clock is None:
            pytest.skip("needs a manual clock, and the backend has no assignable `clock`")
        profile = settings()
        run_state_machine_as_test(
            lambda: BackendMachine(rig_for),  # type: ignore[arg-type]  # any callable does; the stub asks for the class
            settings=settings(
                max_examples=self.examples or profile.max_examples,
                stateful_step_count=self.steps or profile.stateful_step_count,
                deadline=None,  # a store on a loaded machine is slow at times, which is no failure
                suppress_health_check=[HealthCheck.too_slow],
            ),
        )
