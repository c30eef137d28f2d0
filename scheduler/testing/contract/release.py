"""release: leased → ready, as if it had not been leased."""

from __future__ import annotations

from scheduler.leases import Failure
from scheduler.states import JobState
from scheduler.testing.rig import Rig
from scheduler.testing.situations import ONCE, in_state


class ReleaseContract:
    def test_a_released_job_is_ready_and_its_attempt_given_back(self, rig: Rig) -> None:
        lease = rig.leased()
        assert list(rig.backend.release([lease])) == []
        job = rig.job(lease.job.id)
        assert (job.state, job.attempts, job.crashes, job.errors) == (JobState.READY, 0, 0, ())

    def test_another_worker_gets_it_at_once(self, rig: Rig) -> None:
        lease = rig.leased()
        rig.backend.release([lease])
        again = rig.lease_one(worker_id="another")
        assert (again.job.id, again.job.attempts, again.job.lease_owner) == (lease.job.id, 1, "another")
        assert again.token != lease.token

    def test_only_the_present_attempt_is_given_back(self, rig: Rig) -> None:
        lease = rig.leased()
        rig.backend.retry([Failure(lease=lease, error=ONCE)])
        rig.backend.release([rig.lease_one()])
        job = rig.job(lease.job.id)
        assert (job.attempts, [error.attempt for error in job.errors]) == (1, [1])

    def test_a_repeat_is_refused_and_gives_nothing_back(self, rig: Rig) -> None:
        lease = rig.leased()
        rig.backend.retry([Failure(lease=lease, error=ONCE)])
        second = rig.lease_one()
        rig.backend.release([second])
        assert list(rig.backend.release([second])) == [second]
        assert rig.job(lease.job.id).attempts == 1

    def test_an_expired_lease_that_nobody_recovered_is_released(self, rig: Rig) -> None:
        lease = rig.leased(rig.span)
        rig.advance(1.1 * rig.span)
        assert not rig.backend.release([lease])
        assert rig.recover() == (0, 0)
        assert rig.job(lease.job.id).attempts == 0

    def test_a_job_can_be_leased_and_released_for_ever_without_dying(self, rig: Rig) -> None:
        job = rig.add(max_retries=0)
        for _ in range(20):
            assert not rig.backend.release([rig.lease_one()])
        assert rig.job(job.id).attempts == 0

    def test_of_leases_given_back_only_those_not_held_are_refused(self, rig: Rig) -> None:
        rig.add_many(3)
        held = list(rig.lease())
        rig.backend.release([held[1]])
        assert list(rig.backend.release(held)) == [held[1]]
        assert rig.counts()[JobState.READY] == 3

    def test_releasing_nothing_is_harmless(self, rig: Rig) -> None:
        assert list(rig.backend.release([])) == []

    def test_what_succeeded_is_not_given_back(self, rig: Rig) -> None:
        job, lease = in_state(rig, JobState.SUCCEEDED)
        assert list(rig.backend.release([lease])) == [lease]
        assert rig.job(job.id) == job

    def test_many_are_released_in_one_call(self, rig: Rig) -> None:
        rig.add_many(1_500)
        assert not rig.backend.release(rig.lease(2_000))
        assert rig.counts()[JobState.READY] == 1_500
