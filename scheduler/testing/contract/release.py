"""release: leased → ready, as if it had not been leased."""

from __future__ import annotations

from scheduler.leases import Failure
from scheduler.states import JobState
from scheduler.testing.harness import BackendHarness
from scheduler.testing.job_states import ONCE, in_state


class ReleaseContract:
    def test_a_released_job_is_ready_and_its_attempt_given_back(self, harness: BackendHarness) -> None:
        lease = harness.leased()
        assert list(harness.backend.release([lease])) == []
        job = harness.job(lease.job.id)
        assert (job.state, job.attempts, job.crashes, job.errors) == (JobState.READY, 0, 0, ())

    def test_another_worker_gets_it_at_once(self, harness: BackendHarness) -> None:
        lease = harness.leased()
        harness.backend.release([lease])
        again = harness.lease_one(worker_id="another")
        assert (again.job.id, again.job.attempts, again.job.lease_owner) == (lease.job.id, 1, "another")
        assert again.token != lease.token

    def test_only_the_present_attempt_is_given_back(self, harness: BackendHarness) -> None:
        lease = harness.leased()
        harness.backend.retry([Failure(lease=lease, error=ONCE)])
        harness.backend.release([harness.lease_one()])
        job = harness.job(lease.job.id)
        assert (job.attempts, [error.attempt for error in job.errors]) == (1, [1])

    def test_a_repeat_is_refused_and_gives_nothing_back(self, harness: BackendHarness) -> None:
        lease = harness.leased()
        harness.backend.retry([Failure(lease=lease, error=ONCE)])
        second = harness.lease_one()
        harness.backend.release([second])
        assert list(harness.backend.release([second])) == [second]
        assert harness.job(lease.job.id).attempts == 1

    def test_an_expired_lease_that_nobody_recovered_is_released(self, harness: BackendHarness) -> None:
        lease = harness.leased(harness.span)
        harness.advance(1.1 * harness.span)
        assert not harness.backend.release([lease])
        assert harness.recover() == (0, 0)
        assert harness.job(lease.job.id).attempts == 0

    def test_a_job_can_be_leased_and_released_for_ever_without_dying(self, harness: BackendHarness) -> None:
        job = harness.add(max_retries=0)
        for _ in range(20):
            assert not harness.backend.release([harness.lease_one()])
        assert harness.job(job.id).attempts == 0

    def test_of_leases_given_back_only_those_not_held_are_refused(self, harness: BackendHarness) -> None:
        harness.add_many(3)
        held = list(harness.lease())
        harness.backend.release([held[1]])
        assert list(harness.backend.release(held)) == [held[1]]
        assert harness.counts()[JobState.READY] == 3

    def test_releasing_nothing_is_harmless(self, harness: BackendHarness) -> None:
        assert list(harness.backend.release([])) == []

    def test_what_succeeded_is_not_given_back(self, harness: BackendHarness) -> None:
        job, lease = in_state(harness, JobState.SUCCEEDED)
        assert list(harness.backend.release([lease])) == [lease]
        assert harness.job(job.id) == job

    def test_many_are_released_in_one_call(self, harness: BackendHarness) -> None:
        harness.add_many(1_500)
        assert not harness.backend.release(harness.lease(2_000))
        assert harness.counts()[JobState.READY] == 1_500
