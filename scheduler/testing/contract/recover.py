"""recover_expired: leased → ready, or dead if no attempts are left (guarantees 1, 2 and 12)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler.leases import Completion, Failure, Lease
from scheduler.queues import Retention
from scheduler.states import JobState
from scheduler.testing.contract.fixtures import OpenHarness
from scheduler.testing.harness import LONG, BackendHarness
from scheduler.testing.job_states import ONCE
from scheduler.testing.reading import TURNS


def _expire(harness: BackendHarness, lease: Lease) -> None:
    """Renew *lease* for one span and let it expire."""
    assert not harness.backend.renew([lease], harness.span).refused
    harness.advance(1.1 * harness.span)


class RecoverContract:
    def test_an_expired_job_is_ready_again_and_the_crash_counted(self, harness: BackendHarness) -> None:
        lease = harness.leased(max_retries=1)
        _expire(harness, lease)
        assert harness.recover() == (1, 0)
        job = harness.job(lease.job.id)
        assert (job.state, job.attempts, job.crashes) == (JobState.READY, 1, 1)
        assert job.last_error is not None
        assert (job.last_error.kind, job.last_error.attempt) == ("LeaseExpired", 1)
        if harness.clock:
            assert abs(job.last_error.at - harness.clock.now()) <= timedelta(milliseconds=1)

    @pytest.mark.parametrize("max_retries", [0, 1, 3])
    def test_a_job_that_kills_its_worker_is_dead_after_max_retries_and_one_leases(
        self, harness: BackendHarness, max_retries: int
    ) -> None:
        job = harness.add(max_retries=max_retries)
        for attempt in range(1, max_retries + 2):
            lease = harness.lease_one(duration=harness.span)
            assert lease.job.attempts == attempt
            harness.advance(1.1 * harness.span)
            assert harness.recover() == ((0, 1) if attempt > max_retries else (1, 0))
        dead = harness.job(job.id)
        assert (dead.state, dead.attempts, dead.crashes) == (JobState.DEAD, max_retries + 1, max_retries + 1)
        assert dead.finished_at is not None
        assert [error.kind for error in dead.errors] == ["LeaseExpired"] * (max_retries + 1)
        assert harness.lease() == []

    def test_failures_and_crashes_share_the_attempts(self, harness: BackendHarness) -> None:
        lease = harness.leased(max_retries=1)
        harness.backend.retry([Failure(lease=lease, error=ONCE)])
        _expire(harness, harness.lease_one())
        assert harness.recover() == (0, 1)
        job = harness.job(lease.job.id)
        assert (job.attempts, job.crashes) == (2, 1)
        assert [error.kind for error in job.errors] == ["ValueError", "LeaseExpired"]

    def test_a_lease_that_runs_is_left_alone(self, harness: BackendHarness) -> None:
        lease = harness.leased(LONG)
        harness.advance(harness.span)
        assert harness.recover() == (0, 0)
        assert harness.job(lease.job.id) == lease.job
        assert not harness.backend.complete([Completion(lease=lease)])

    def test_every_call_with_a_recovered_lease_is_refused(self, harness: BackendHarness) -> None:
        """The lease, attempt count and result of the new holder do not change."""
        first = harness.leased(max_retries=5)
        _expire(harness, first)
        harness.recover()
        second = harness.lease_one(worker_id="second")
        before = harness.job(first.job.id)
        backend = harness.backend
        assert list(backend.complete([Completion(lease=first, result=b"late")])) == [first]
        assert list(backend.retry([Failure(lease=first, error=ONCE)])) == [first]
        assert list(backend.bury([Failure(lease=first, error=ONCE)])) == [first]
        assert list(backend.release([first])) == [first]
        assert list(backend.renew([first], 2 * LONG).refused) == [first]
        assert harness.job(first.job.id) == before
        assert not backend.complete([Completion(lease=second, result=b"right")])
        assert harness.job(first.job.id).result == b"right"

    def test_an_older_lease_is_refused_even_for_the_same_worker(self, harness: BackendHarness) -> None:
        first = harness.leased(harness.span)
        harness.add()
        other = harness.lease_one(worker_id="contract")
        assert not harness.backend.renew([other], LONG).refused
        harness.advance(1.1 * harness.span)
        assert harness.recover() == (1, 0)
        again = harness.lease_one(worker_id="contract")
        assert again.job.id == first.job.id
        assert list(harness.backend.complete([Completion(lease=first)])) == [first]

    def test_recovery_happens_once(self, harness: BackendHarness) -> None:
        _expire(harness, harness.leased())
        assert harness.recover() == (1, 0)
        assert harness.recover() == (0, 0)

    def test_next_expiry_is_the_time_to_the_earliest_end(self, harness: BackendHarness) -> None:
        other = harness.new_queue()
        assert harness.backend.recover_expired([harness.queue, other], 10).next_expiry is None
        harness.leased(50.0)
        harness.leased(20.0, queue=other)
        assert harness.backend.recover_expired([harness.queue], 10).next_expiry == pytest.approx(50.0, abs=5.0)
        assert harness.backend.recover_expired([harness.queue, other], 10).next_expiry == pytest.approx(20.0, abs=5.0)
        if harness.clock:
            harness.advance(7.5)
            assert harness.backend.recover_expired([other], 10).next_expiry == pytest.approx(12.5, abs=0.002)

    def test_a_limited_recovery_goes_on_until_all_are_found(self, harness: BackendHarness) -> None:
        """Each call recovers some leases while any have expired, and reports that more are left."""
        harness.add_many(9)
        for _ in range(9):
            harness.lease_one(duration=harness.span)
        harness.advance(1.1 * harness.span)
        found = 0
        for _ in range(TURNS):
            recovery = harness.backend.recover_expired([harness.queue], 2)
            found += recovery.ready
            if recovery.next_expiry is None:
                break
            assert recovery.ready > 0
            assert recovery.next_expiry == 0.0
        assert found == 9
        assert harness.counts()[JobState.READY] == 9

    def test_only_the_named_queues_are_recovered(self, harness: BackendHarness) -> None:
        other = harness.new_queue()
        lease = harness.leased(harness.span, queue=other)
        harness.advance(1.1 * harness.span)
        recovery = harness.backend.recover_expired([harness.queue], 100)
        assert (recovery.ready, recovery.dead, recovery.next_expiry) == (0, 0, None)
        assert harness.state(lease.job.id, queue=other) is JobState.LEASED

    def test_without_retention_a_dead_job_is_gone(self, open_harness: OpenHarness) -> None:
        harness = open_harness(Retention(dead=0.0))
        lease = harness.leased(harness.span, max_retries=0)
        harness.advance(1.1 * harness.span)
        assert harness.recover() == (0, 1)
        assert harness.find(lease.job.id) is None

    def test_many_expired_leases_are_all_recovered(self, harness: BackendHarness) -> None:
        harness.add_many(1_500)
        assert len(harness.lease(2_000, duration=2 * harness.span)) == 1_500
        harness.advance(2.1 * harness.span)
        assert harness.recover() == (1_500, 0)
