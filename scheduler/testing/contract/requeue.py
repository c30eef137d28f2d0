"""requeue: dead → ready, with all attempts anew."""

from __future__ import annotations

import pytest

from scheduler.leases import Failure, MoveAnswer
from scheduler.states import JobState
from scheduler.testing.rig import LONG, Rig
from scheduler.testing.situations import in_state


class RequeueContract:
    def test_a_dead_job_is_ready_again_with_its_errors_kept(self, rig: Rig) -> None:
        job, _ = in_state(rig, JobState.DEAD, payload=b"work", max_retries=2)
        assert list(rig.backend.requeue(rig.queue, [job.id])) == [
            MoveAnswer(id=job.id, moved=True, state=JobState.READY)
        ]
        after = rig.job(job.id)
        assert (after.state, after.attempts, after.crashes, after.payload) == (JobState.READY, 0, 0, b"work")
        assert after.errors == job.errors
        assert (after.run_at, after.created_at, after.finished_at) == (job.run_at, job.created_at, None)
        assert rig.lease_one().job.attempts == 1

    def test_crashes_are_forgotten_too(self, rig: Rig) -> None:
        lease = rig.leased(rig.span, max_retries=0)
        rig.advance(1.1 * rig.span)
        assert rig.recover() == (0, 1)
        rig.backend.requeue(rig.queue, [lease.job.id])
        after = rig.job(lease.job.id)
        assert (after.attempts, after.crashes) == (0, 0)
        assert [error.kind for error in after.errors] == ["LeaseExpired"]

    @pytest.mark.parametrize("state", sorted(set(JobState) - {JobState.DEAD}))
    def test_only_dead_jobs_are_requeued_and_any_other_state_is_named(self, rig: Rig, state: JobState) -> None:
        job, _ = in_state(rig, state)
        assert list(rig.backend.requeue(rig.queue, [job.id])) == [MoveAnswer(id=job.id, moved=False, state=state)]
        assert rig.job(job.id) == job

    def test_requeue_answers_each_id_in_order_absent_ones_included(self, rig: Rig) -> None:
        first, second = in_state(rig, JobState.DEAD)[0], in_state(rig, JobState.DEAD)[0]
        answers = rig.backend.requeue(rig.queue, [second.id, "nobody", first.id, second.id])
        assert list(answers) == [
            MoveAnswer(id=second.id, moved=True, state=JobState.READY),
            MoveAnswer(id="nobody", moved=False, state=None),
            MoveAnswer(id=first.id, moved=True, state=JobState.READY),
            MoveAnswer(id=second.id, moved=False, state=JobState.READY),
        ]

    def test_the_old_lease_proves_nothing_any_more(self, rig: Rig) -> None:
        job, lease = in_state(rig, JobState.DEAD)
        rig.backend.requeue(rig.queue, [job.id])
        assert list(rig.backend.bury([Failure(lease=lease)])) == [lease]
        assert list(rig.backend.renew([lease], LONG).refused) == [lease]
        assert rig.state(job.id) is JobState.READY

    def test_many_are_requeued_in_one_call(self, rig: Rig) -> None:
        rig.add_many(1_500)
        leases = rig.lease(2_000)
        rig.backend.bury([Failure(lease=lease) for lease in leases])
        answers = rig.backend.requeue(rig.queue, [lease.job.id for lease in leases])
        assert all(answer.moved for answer in answers)
        assert len(rig.lease(2_000)) == 1_500

    def test_requeueing_nothing_is_harmless(self, rig: Rig) -> None:
        assert list(rig.backend.requeue(rig.queue, [])) == []
