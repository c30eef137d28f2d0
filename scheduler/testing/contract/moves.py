"""Every move from every state: the moves in `MOVES` succeed, all others are refused and change nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from scheduler.jobs import Job
from scheduler.leases import Completion, Failure, Lease, MoveAnswer
from scheduler.states import MOVES, JobState
from scheduler.testing.harness import LONG, BackendHarness
from scheduler.testing.job_states import ONCE, in_state


def _lease(harness: BackendHarness, job: Job, _: Lease) -> bool:
    return job.id in {lease.job.id for lease in harness.lease_once()}


def _recover(harness: BackendHarness, _: Job, lease: Lease) -> bool:
    harness.backend.renew([lease], harness.span)
    harness.advance(1.1 * harness.span)
    return sum(harness.recover()) == 1


def _promote(harness: BackendHarness, job: Job, _: Lease) -> bool:
    if not harness.clock:
        pytest.skip("needs a manual clock: the job is due in an hour")
    harness.advance(LONG)
    return harness.state(job.id) is JobState.READY and job.state is not JobState.READY


def _accepted(refused: Sequence[Lease]) -> bool:
    return not refused


def _moved(results: Sequence[MoveAnswer]) -> bool:
    return results[0].moved


_TRY: Mapping[str, Callable[[BackendHarness, Job, Lease], bool]] = {
    "promote_due": _promote,
    "lease": _lease,
    "renew": lambda harness, _, lease: _accepted(harness.backend.renew([lease], 2 * LONG).refused),
    "complete": lambda harness, _, lease: _accepted(harness.backend.complete([Completion(lease=lease)])),
    "retry": lambda harness, _, lease: _accepted(harness.backend.retry([Failure(lease=lease, delay=LONG, error=ONCE)])),
    "bury": lambda harness, _, lease: _accepted(harness.backend.bury([Failure(lease=lease, error=ONCE)])),
    "release": lambda harness, _, lease: _accepted(harness.backend.release([lease])),
    "recover_expired": _recover,
    "cancel": lambda harness, job, _: _moved(harness.backend.cancel(job.queue, [job.id])),
    "requeue": lambda harness, job, _: _moved(harness.backend.requeue(job.queue, [job.id])),
}


class MovesContract:
    @pytest.mark.parametrize("state", list(JobState))
    @pytest.mark.parametrize("move", sorted(_TRY))
    def test_only_allowed_moves_happen(self, harness: BackendHarness, move: str, state: JobState) -> None:
        before, lease = in_state(harness, state)
        happened = _TRY[move](harness, before, lease)
        after = harness.job(before.id)
        if state in MOVES[move].sources:
            assert happened
            assert after.state in MOVES[move].targets
        else:
            assert not happened
            assert after == before

    def test_every_move_is_tested(self) -> None:
        assert set(_TRY) | {"enqueue"} == set(MOVES)
