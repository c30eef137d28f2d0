"""requeue: dead → ready, with all its attempts."""

from __future__ import annotations

import pytest

from scheduler.leases import Failure, MoveAnswer
from scheduler.states import JobState
from scheduler.testing.harness import LONG, BackendHarness
from scheduler.testing.job_states import in_state


class RequeueContract:
    def test_a_dead_job_is_ready_again_with_its_errors_kept(self, harness: BackendHarness) -> None:
        job, _ = in_state(harness, JobState.DEAD, payload=b"work", max_retries=2)
        assert list(harness.backend.requeue(harness.queue, [job.id])) == [
            MoveAnswer(id=job.id, moved=True, state=JobState.READY)
        ]
        after = harness.job(job.id)
        assert (after.state, after.attempts, after.crashes, after.payload) == (JobState.READY, 0, 0, b"work")
        assert after.errors == job.errors
        assert (after.run_at, after.created_at, after.finished_at) == (job.run_at, job.created_at, None)
        assert harness.lease_one().job.attempts == 1

    def test_requeueing_resets_the_count_of_crashes(self, harness: BackendHarness) -> None:
        lease = harness.leased(harness.span, max_retries=0)
        harness.advance(1.1 * harness.span)
        assert harness.recover() == (0, 1)
        harness.backend.requeue(harness.queue, [lease.job.id])
        after = harness.job(lease.job.id)
        assert (after.attempts, after.crashes) == (0, 0)
        assert [error.kind for error in after.errors] == ["LeaseExpired"]

    @pytest.mark.parametrize("state", sorted(set(JobState) - {JobState.DEAD}))
    def test_requeue_is_refused_in_any_other_state_which_is_returned(
        self, harness: BackendHarness, state: JobState
    ) -> None:
        job, _ = in_state(harness, state)
        assert list(harness.backend.requeue(harness.queue, [job.id])) == [
            MoveAnswer(id=job.id, moved=False, state=state)
        ]
        assert harness.job(job.id) == job

    def test_requeue_returns_one_result_per_id_in_order_including_absent_ids(self, harness: BackendHarness) -> None:
        first, second = in_state(harness, JobState.DEAD)[0], in_state(harness, JobState.DEAD)[0]
        results = harness.backend.requeue(harness.queue, [second.id, "nobody", first.id, second.id])
        assert list(results) == [
            MoveAnswer(id=second.id, moved=True, state=JobState.READY),
            MoveAnswer(id="nobody", moved=False, state=None),
            MoveAnswer(id=first.id, moved=True, state=JobState.READY),
            MoveAnswer(id=second.id, moved=False, state=JobState.READY),
        ]

    def test_the_old_lease_of_a_requeued_job_is_refused(self, harness: BackendHarness) -> None:
        job, lease = in_state(harness, JobState.DEAD)
        harness.backend.requeue(harness.queue, [job.id])
        assert list(harness.backend.bury([Failure(lease=lease)])) == [lease]
        assert list(harness.backend.renew([lease], LONG).refused) == [lease]
        assert harness.state(job.id) is JobState.READY

    def test_many_are_requeued_in_one_call(self, harness: BackendHarness) -> None:
        harness.add_many(1_500)
        leases = harness.lease(2_000)
        harness.backend.bury([Failure(lease=lease) for lease in leases])
        results = harness.backend.requeue(harness.queue, [lease.job.id for lease in leases])
        assert all(result.moved for result in results)
        assert len(harness.lease(2_000)) == 1_500

    def test_requeueing_nothing_is_harmless(self, harness: BackendHarness) -> None:
        assert list(harness.backend.requeue(harness.queue, [])) == []
