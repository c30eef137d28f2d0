"""recover_expired: leased → ready, or dead where the attempts are used up (guarantees 1, 2 and 12)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler.leases import Completion, Failure, Lease
from scheduler.queues import Retention
from scheduler.states import JobState
from scheduler.testing.contract.stand import OpenRig
from scheduler.testing.reading import TURNS
from scheduler.testing.rig import LONG, Rig
from scheduler.testing.situations import ONCE


def _expire(rig: Rig, lease: Lease) -> None:
    """Renew for a while and let that pass."""
    assert not rig.backend.renew([lease], rig.span).refused
    rig.advance(1.1 * rig.span)


class RecoverContract:
    def test_an_expired_job_is_ready_again_and_the_crash_counted(self, rig: Rig) -> None:
        lease = rig.leased(max_retries=1)
        _expire(rig, lease)
        assert rig.recover() == (1, 0)
        job = rig.job(lease.job.id)
        assert (job.state, job.attempts, job.crashes) == (JobState.READY, 1, 1)
        assert job.last_error is not None
        assert (job.last_error.kind, job.last_error.attempt) == ("LeaseExpired", 1)
        if rig.clock:
            assert abs(job.last_error.at - rig.clock.now()) <= timedelta(milliseconds=1)

    @pytest.mark.parametrize("max_retries", [0, 1, 3])
    def test_a_job_that_kills_its_worker_is_dead_after_max_retries_and_one_leases(
        self, rig: Rig, max_retries: int
    ) -> None:
        job = rig.add(max_retries=max_retries)
        for attempt in range(1, max_retries + 2):
            lease = rig.lease_one(duration=rig.span)
            assert lease.job.attempts == attempt
            rig.advance(1.1 * rig.span)
            assert rig.recover() == ((0, 1) if attempt > max_retries else (1, 0))
        dead = rig.job(job.id)
        assert (dead.state, dead.attempts, dead.crashes) == (JobState.DEAD, max_retries + 1, max_retries + 1)
        assert dead.finished_at is not None
        assert [error.kind for error in dead.errors] == ["LeaseExpired"] * (max_retries + 1)
        assert rig.lease() == []

    def test_failures_and_crashes_share_the_attempts(self, rig: Rig) -> None:
        lease = rig.leased(max_retries=1)
        rig.backend.retry([Failure(lease=lease, error=ONCE)])
        _expire(rig, rig.lease_one())
        assert rig.recover() == (0, 1)
        job = rig.job(lease.job.id)
        assert (job.attempts, job.crashes) == (2, 1)
        assert [error.kind for error in job.errors] == ["ValueError", "LeaseExpired"]

    def test_a_lease_that_runs_is_left_alone(self, rig: Rig) -> None:
        lease = rig.leased(LONG)
        rig.advance(rig.span)
        assert rig.recover() == (0, 0)
        assert rig.job(lease.job.id) == lease.job
        assert not rig.backend.complete([Completion(lease=lease)])

    def test_the_late_holder_is_refused_everything(self, rig: Rig) -> None:
        """And the new holder's lease, attempt count and result are untouched."""
        first = rig.leased(max_retries=5)
        _expire(rig, first)
        rig.recover()
        second = rig.lease_one(worker_id="second")
        before = rig.job(first.job.id)
        backend = rig.backend
        assert list(backend.complete([Completion(lease=first, result=b"late")])) == [first]
        assert list(backend.retry([Failure(lease=first, error=ONCE)])) == [first]
        assert list(backend.bury([Failure(lease=first, error=ONCE)])) == [first]
        assert list(backend.release([first])) == [first]
        assert list(backend.renew([first], 2 * LONG).refused) == [first]
        assert rig.job(first.job.id) == before
        assert not backend.complete([Completion(lease=second, result=b"right")])
        assert rig.job(first.job.id).result == b"right"

    def test_the_same_worker_name_gives_no_right_to_an_older_lease(self, rig: Rig) -> None:
        first = rig.leased(rig.span)
        rig.add()
        other = rig.lease_one(worker_id="contract")
        assert not rig.backend.renew([other], LONG).refused
        rig.advance(1.1 * rig.span)
        assert rig.recover() == (1, 0)
        again = rig.lease_one(worker_id="contract")
        assert again.job.id == first.job.id
        assert list(rig.backend.complete([Completion(lease=first)])) == [first]

    def test_recovery_happens_once(self, rig: Rig) -> None:
        _expire(rig, rig.leased())
        assert rig.recover() == (1, 0)
        assert rig.recover() == (0, 0)

    def test_next_expiry_is_the_time_to_the_earliest_end(self, rig: Rig) -> None:
        other = rig.new_queue()
        assert rig.backend.recover_expired([rig.queue, other], 10).next_expiry is None
        rig.leased(50.0)
        rig.leased(20.0, queue=other)
        assert rig.backend.recover_expired([rig.queue], 10).next_expiry == pytest.approx(50.0, abs=5.0)
        assert rig.backend.recover_expired([rig.queue, other], 10).next_expiry == pytest.approx(20.0, abs=5.0)
        if rig.clock:
            rig.advance(7.5)
            assert rig.backend.recover_expired([other], 10).next_expiry == pytest.approx(12.5, abs=0.002)

    def test_a_limited_recovery_goes_on_until_all_are_found(self, rig: Rig) -> None:
        """Each call finds some while some are there, and says that there are more."""
        rig.add_many(9)
        for _ in range(9):
            rig.lease_one(duration=rig.span)
        rig.advance(1.1 * rig.span)
        found = 0
        for _ in range(TURNS):
            recovery = rig.backend.recover_expired([rig.queue], 2)
            found += recovery.ready
            if recovery.next_expiry is None:
                break
            assert recovery.ready > 0
            assert recovery.next_expiry == 0.0
        assert found == 9
        assert rig.counts()[JobState.READY] == 9

    def test_only_the_named_queues_are_recovered(self, rig: Rig) -> None:
        other = rig.new_queue()
        lease = rig.leased(rig.span, queue=other)
        rig.advance(1.1 * rig.span)
        recovery = rig.backend.recover_expired([rig.queue], 100)
        assert (recovery.ready, recovery.dead, recovery.next_expiry) == (0, 0, None)
        assert rig.state(lease.job.id, queue=other) is JobState.LEASED

    def test_without_retention_a_dead_job_is_gone(self, open_rig: OpenRig) -> None:
        rig = open_rig(Retention(dead=0.0))
        lease = rig.leased(rig.span, max_retries=0)
        rig.advance(1.1 * rig.span)
        assert rig.recover() == (0, 1)
        assert rig.find(lease.job.id) is None

    def test_many_expired_leases_are_all_recovered(self, rig: Rig) -> None:
        rig.add_many(1_500)
        assert len(rig.lease(2_000, duration=2 * rig.span)) == 1_500
        rig.advance(2.1 * rig.span)
        assert rig.recover() == (1_500, 0)
