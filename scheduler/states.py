"""The states of a job, and the moves between them that are allowed on every store."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

__all__ = ["JobState"]


class JobState(StrEnum):
    """The state of a job. Every stored job is in exactly one."""

    SCHEDULED = "scheduled"
    READY = "ready"
    LEASED = "leased"
    RETRY_WAIT = "retry_wait"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"


TERMINAL = frozenset({JobState.SUCCEEDED, JobState.DEAD, JobState.CANCELLED})
"""States of finished jobs."""

LIVE = frozenset(JobState) - TERMINAL
"""States of unfinished jobs."""


class Move(NamedTuple):
    """States from which a contract method moves a job, and states to which it moves the job."""

    sources: frozenset[JobState]
    targets: frozenset[JobState]


def _move(sources: set[JobState], targets: set[JobState]) -> Move:
    return Move(frozenset(sources), frozenset(targets))


_S = JobState
MOVES: Mapping[str, Move] = MappingProxyType(
    {
        # enqueue, and retry without a delay, may store a job that is due now as ready at once.
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
"""The move of each contract method. `purge` and `trim` are not listed, since they delete jobs."""
