"""The table of allowed moves."""

from __future__ import annotations

import pytest

from scheduler.backend import METHODS
from scheduler.states import LIVE, MOVES, TERMINAL, JobState, Move


def exits(state: JobState) -> set[str]:
    return {name for name, move in MOVES.items() if state in move.sources}


def reached_from(states: frozenset[JobState]) -> set[JobState]:
    """Return all states that can be reached by moves, including *states*."""
    seen, fresh = set[JobState](), set(states)
    while fresh:
        seen |= fresh
        fresh = {target for move in MOVES.values() if move.sources & fresh for target in move.targets} - seen
    return seen


def test_a_state_is_live_or_terminal() -> None:
    assert set(JobState) == LIVE | TERMINAL
    assert not LIVE & TERMINAL


def test_every_state_is_reached_from_an_enqueue() -> None:
    assert reached_from(MOVES["enqueue"].targets) == set(JobState)


@pytest.mark.parametrize("state", sorted(LIVE))
def test_every_live_state_leads_to_success_and_to_dead(state: JobState) -> None:
    """No live job can get stuck in a state."""
    assert reached_from(frozenset({state})) >= {JobState.SUCCEEDED, JobState.DEAD}


@pytest.mark.parametrize(
    ("state", "only"), [(JobState.SUCCEEDED, set()), (JobState.CANCELLED, set()), (JobState.DEAD, {"requeue"})]
)
def test_a_terminal_state_has_no_exit_but_requeue(state: JobState, only: set[str]) -> None:
    assert state in TERMINAL
    assert exits(state) == only


def test_only_a_lease_makes_a_job_leased() -> None:
    """A renewal keeps a job leased. No other move leads to that state."""
    assert {name for name, move in MOVES.items() if JobState.LEASED in move.targets} == {"lease", "renew"}


def test_a_leased_job_cannot_be_cancelled_or_promoted() -> None:
    """Only the holder, or recovery, moves a leased job."""
    assert exits(JobState.LEASED) == {"renew", "complete", "retry", "bury", "release", "recover_expired"}


def test_every_move_is_a_method_of_the_contract() -> None:
    assert set(MOVES) <= set(METHODS)


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        MOVES["forget"] = Move(frozenset(), frozenset())  # type: ignore[index]  # what the test is about


def test_a_state_is_its_text() -> None:
    """Stores keep the text; reading it back gives the state."""
    for state in JobState:
        assert JobState(str(state)) is state
        assert f"{state}" == state.value
