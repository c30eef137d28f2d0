"""Retention: how long finished jobs are kept."""

from __future__ import annotations

import math

import pytest

from scheduler.errors import ConfigError
from scheduler.queues import Retention
from scheduler.states import LIVE, TERMINAL, JobState


def test_every_terminal_state_has_its_retention() -> None:
    retention = Retention(succeeded=1, cancelled=2, dead=3)
    assert {state: retention.seconds(state) for state in TERMINAL} == {
        JobState.SUCCEEDED: 1,
        JobState.CANCELLED: 2,
        JobState.DEAD: 3,
    }


def test_only_the_dead_are_kept_by_default() -> None:
    assert (Retention().succeeded, Retention().cancelled, Retention().dead) == (0.0, 0.0, 30 * 86_400.0)


@pytest.mark.parametrize("state", sorted(LIVE))
def test_a_live_job_has_no_retention(state: JobState) -> None:
    with pytest.raises(KeyError):
        Retention().seconds(state)


@pytest.mark.parametrize("name", ["succeeded", "cancelled", "dead"])
@pytest.mark.parametrize("value", [-1, math.nan, math.inf, 10**12, True, None, "1"], ids=repr)
def test_nonsense_is_refused_and_named(name: str, value: object) -> None:
    with pytest.raises(ConfigError) as caught:
        Retention(**{name: value})  # type: ignore[arg-type]  # what the test is about
    assert caught.value.field == f"retention.{name}"
