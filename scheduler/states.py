"""The states of a job and the table of lawful moves between them; no other move is lawful on any store."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple


class JobState(StrEnum):
    """Where a job stands. Every stored job is in exactly one state."""

    SCHEDULED = "scheduled"
    READY = "ready"
    LEASED = "leased"
    RETRY_WAIT = "retry_wait"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"


TERMINAL = frozenset({JobState.SUCCEEDED, JobState.DEAD, JobState.CANCELLED})
"""States that no worker leaves."""

LIVE = frozenset(JobState) - TERMINAL
"""States of jobs that still have to run."""


class Move(NamedTuple):
    """From which states a contract method moves a job, and to which."""

    sources: frozenset[JobState]
    targets: frozenset[JobState]


def _move(sources: set[JobState], targets: set[JobState]) -> Move:
    return Move(frozenset(sources), frozenset(targets))


_S = JobState
MOVES: Mapping[str, Move] = MappingProxyType(
    {
        # A job due now may be stored as ready at once, by enqueue as by a retry without delay.
        "enqueue": _move(set(), {_S.SCHEDULED, _S.READY}),
        "promote_due": _move({_S.SCHEDULED, _S.RETRY_WAIT}, {_S.READY}),
        "lease": _move({_S.READY}, {_S.LEASED}),
        "renew": _move({_S.LEASED}, {_S.LEASED}),
        "complete": _move({_S.LEASED}, {_S.SUCCEEDED}),
        "retry": _move({_S.LEASED}, {_S.RETRY_WAIT, _S.READY}),
        "bury": _move({_S.LEASED}, {_S.DEAD}),
        "release": _move({_S.LEASED}, {_S.READY}),
        "recover_expired": _move({_S.LEASED}, {_S.READY, _S.DEAD}),
        "cancel": _move({_S.SCHEDULED, _S.READY, _S.RETRY_WAIT}, {_S.CANCELLED}),
        "requeue": _move({_S.DEAD}, {_S.READY}),
    }
)
"""Contract method → its move. `purge` and `trim` delete terminal (purge: any but leased) jobs and are no moves."""
