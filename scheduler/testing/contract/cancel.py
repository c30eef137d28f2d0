"""cancel: scheduled, ready, retry_wait → cancelled."""

from __future__ import annotations

import pytest

from scheduler.leases import Completion, MoveAnswer
from scheduler.queues import Retention
from scheduler.states import MOVES, JobState
from scheduler.testing.contract.fixtures import OpenHarness
from scheduler.testing.harness import LONG, BackendHarness
from scheduler.testing.job_states import in_state

_CANCELLABLE = sorted(MOVES["cancel"].sources)


class CancelContract:
    @pytest.mark.parametrize("state", _CANCELLABLE)
    def test_a_job_that_does_not_run_is_cancelled_and_never_leased(
        self, harness: BackendHarness, state: JobState
    ) -> None:
        job, _ = in_state(harness, state, payload=b"work")
        results = harness.backend.cancel(harness.queue, [job.id])
        assert list(results) == [MoveAnswer(id=job.id, moved=True, state=JobState.CANCELLED)]
        after = harness.job(job.id)
        assert (after.state, after.due_at, after.payload) == (JobState.CANCELLED, None, b"work")
        assert (after.attempts, after.errors) == (job.attempts, job.errors)
        assert after.finished_at is not None
        harness.advance(harness.span)
        assert harness.lease() == []

    @pytest.mark.parametrize("state", sorted(set(JobState) - set(_CANCELLABLE)))
    def test_cancel_is_refused_in_any_other_state_which_is_returned(
        self, harness: BackendHarness, state: JobState
    ) -> None:
        job, _ = in_state(harness, state)
        assert list(harness.backend.cancel(harness.queue, [job.id])) == [
            MoveAnswer(id=job.id, moved=False, state=state)
        ]
        assert harness.job(job.id) == job

    def test_a_job_that_runs_is_not_disturbed(self, harness: BackendHarness) -> None:
        lease = harness.leased()
        harness.backend.cancel(harness.queue, [lease.job.id])
        assert not harness.backend.complete([Completion(lease=lease)])

    def test_cancel_returns_one_result_per_id_in_order_including_absent_ids(self, harness: BackendHarness) -> None:
        first, second = harness.add(delay=LONG), harness.add(delay=LONG)
        results = harness.backend.cancel(harness.queue, [second.id, "nobody", first.id, second.id])
        assert list(results) == [
            MoveAnswer(id=second.id, moved=True, state=JobState.CANCELLED),
            MoveAnswer(id="nobody", moved=False, state=None),
            MoveAnswer(id=first.id, moved=True, state=JobState.CANCELLED),
            MoveAnswer(id=second.id, moved=False, state=JobState.CANCELLED),
        ]

    def test_an_id_of_another_queue_is_absent(self, harness: BackendHarness) -> None:
        job = harness.add(queue=harness.new_queue(), delay=LONG)
        assert [result.state for result in harness.backend.cancel(harness.queue, [job.id])] == [None]
        assert harness.state(job.id, queue=job.queue) is JobState.SCHEDULED

    @pytest.mark.parametrize("state", _CANCELLABLE)
    def test_without_retention_the_job_is_gone_and_its_id_can_be_used_at_once(
        self, open_harness: OpenHarness, state: JobState
    ) -> None:
        """The new job with that id is leased once, even if the store still has traces of the old one."""
        harness = open_harness(Retention())
        job, _ = in_state(harness, state, id="again")
        results = harness.backend.cancel(harness.queue, ["again"])
        assert list(results) == [MoveAnswer(id="again", moved=True, state=JobState.CANCELLED)]
        assert harness.find(job.id) is None
        assert not any(harness.counts().values())
        harness.add(id="again", payload=b"new")
        assert [lease.job.payload for lease in harness.lease()] == [b"new"]

    def test_cancelled_jobs_do_not_delay_ready_ones(self, harness: BackendHarness) -> None:
        jobs = harness.add_many(20)
        harness.backend.cancel(harness.queue, [job.id for job in jobs[::2]])
        assert harness.counts()[JobState.READY] == 10
        assert len(harness.lease_once(1)) == 1
        assert {lease.job.id for lease in harness.lease()} < {job.id for job in jobs[1::2]}

    def test_many_are_cancelled_in_one_call(self, harness: BackendHarness) -> None:
        jobs = harness.add_many(1_500, delay=LONG)
        assert all(result.moved for result in harness.backend.cancel(harness.queue, [job.id for job in jobs]))
        assert harness.counts()[JobState.CANCELLED] == 1_500

    def test_cancelling_nothing_is_harmless(self, harness: BackendHarness) -> None:
        assert list(harness.backend.cancel(harness.queue, [])) == []
