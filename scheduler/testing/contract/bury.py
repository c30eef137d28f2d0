"""bury: leased → dead."""

from __future__ import annotations

from scheduler.jobs import ErrorDetail
from scheduler.leases import Failure
from scheduler.queues import Retention
from scheduler.states import JobState
from scheduler.testing.contract.stand import OpenRig
from scheduler.testing.rig import LONG, Rig
from scheduler.testing.situations import ONCE, in_state


class BuryContract:
    def test_a_buried_job_is_dead_with_the_reason(self, rig: Rig) -> None:
        """However many retries it had left."""
        lease = rig.leased(max_retries=9, payload=b"work")
        assert list(rig.backend.bury([Failure(lease=lease, delay=LONG, error=ONCE)])) == []
        job = rig.job(lease.job.id)
        assert (job.state, job.attempts, job.payload, job.due_at) == (JobState.DEAD, 1, b"work", None)
        assert job.last_error is not None
        assert (job.last_error.kind, job.last_error.attempt) == ("ValueError", 1)
        assert job.finished_at is not None

    def test_a_burial_without_an_error_records_none(self, rig: Rig) -> None:
        lease = rig.leased()
        rig.backend.bury([Failure(lease=lease)])
        assert rig.job(lease.job.id).errors == ()

    def test_an_uncounted_burial_gives_the_attempt_back(self, rig: Rig) -> None:
        lease = rig.leased()
        rig.backend.bury([Failure(lease=lease, counted=False)])
        assert rig.job(lease.job.id).attempts == 0

    def test_a_dead_job_is_never_leased_or_promoted(self, rig: Rig) -> None:
        lease = rig.leased()
        rig.backend.bury([Failure(lease=lease)])
        rig.advance(rig.span)
        assert rig.lease() == []
        assert rig.promote().next_due is None

    def test_a_repeated_burial_is_refused_and_changes_nothing(self, rig: Rig) -> None:
        job, lease = in_state(rig, JobState.DEAD)
        assert list(rig.backend.bury([Failure(lease=lease, error=ErrorDetail(kind="Late"))])) == [lease]
        assert rig.job(job.id) == job

    def test_without_retention_the_job_is_gone_at_once(self, open_rig: OpenRig) -> None:
        rig = open_rig(Retention(dead=0.0))
        lease = rig.leased(id="again")
        assert not rig.backend.bury([Failure(lease=lease, error=ONCE)])
        assert rig.find("again") is None
        assert rig.add(id="again").errors == ()

    def test_burying_nothing_is_harmless(self, rig: Rig) -> None:
        assert list(rig.backend.bury([])) == []

    def test_many_are_buried_in_one_call(self, rig: Rig) -> None:
        rig.add_many(1_500)
        assert not rig.backend.bury([Failure(lease=lease, error=ONCE) for lease in rig.lease(2_000)])
        assert rig.counts()[JobState.DEAD] == 1_500
