"""Every move from every state: those in the table of moves happen, all others change nothing and say so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from scheduler.jobs import Job
from scheduler.leases import Completion, Failure, Lease, MoveAnswer
from scheduler.states import MOVES, JobState
from scheduler.testing.rig import LONG, Rig
from scheduler.testing.situations import ONCE, in_state


def _lease(rig: Rig, job: Job, _: Lease) -> bool:
    return job.id in {lease.job.id for lease in rig.lease_once()}


def _recover(rig: Rig, _: Job, lease: Lease) -> bool:
    rig.backend.renew([lease], rig.span)
    rig.advance(1.1 * rig.span)
    return sum(rig.recover()) == 1


def _promote(rig: Rig, job: Job, _: Lease) -> bool:
    if not rig.clock:
        pytest.skip("needs a manual clock: the job is due in an hour")
    rig.advance(LONG)
    return rig.state(job.id) is JobState.READY and job.state is not JobState.READY


def _accepted(refused: Sequence[Lease]) -> bool:
    return not refused


def _moved(answers: Sequence[MoveAnswer]) -> bool:
    return answers[0].moved


_TRY: Mapping[str, Callable[[Rig, Job, Lease], bool]] = {
    "promote_due": _promote,
    "lease": _lease,
    "renew": lambda rig, _, lease: _accepted(rig.backend.renew([lease], 2 * LONG).refused),
    "complete": lambda rig, _, lease: _accepted(rig.backend.complete([Completion(lease=lease)])),
    "retry": lambda rig, _, lease: _accepted(rig.backend.retry([Failure(lease=lease, delay=LONG, error=ONCE)])),
    "bury": lambda rig, _, lease: _accepted(rig.backend.bury([Failure(lease=lease, error=ONCE)])),
    "release": lambda rig, _, lease: _accepted(rig.backend.release([lease])),
    "recover_expired": _recover,
    "cancel": lambda rig, job, _: _moved(rig.backend.cancel(job.queue, [job.id])),
    "requeue": lambda rig, job, _: _moved(rig.backend.requeue(job.queue, [job.id])),
}


class MovesContract:
    @pytest.mark.parametrize("state", list(JobState))
    @pytest.mark.parametrize("move", sorted(_TRY))
    def test_only_the_lawful_moves_happen(self, rig: Rig, move: str, state: JobState) -> None:
        before, lease = in_state(rig, state)
        happened = _TRY[move](rig, before, lease)
        after = rig.job(before.id)
        if state in MOVES[move].sources:
            assert happened
            assert after.state in MOVES[move].targets
        else:
            assert not happened
            assert after == before

    def test_every_move_is_tried(self) -> None:
        assert set(_TRY) | {"enqueue"} == set(MOVES)
