"""bury: leased → dead."""

from __future__ import annotations

from scheduler.jobs import ErrorDetail
from scheduler.leases import Failure
from scheduler.queues import Retention
from scheduler.states import JobState
from scheduler.testing.contract.fixtures import OpenHarness
from scheduler.testing.harness import LONG, BackendHarness
from scheduler.testing.job_states import ONCE, in_state


class BuryContract:
    def test_a_buried_job_is_dead_with_the_reason(self, harness: BackendHarness) -> None:
        """Remaining retries do not matter."""
        lease = harness.leased(max_retries=9, payload=b"work")
        assert list(harness.backend.bury([Failure(lease=lease, delay=LONG, error=ONCE)])) == []
        job = harness.job(lease.job.id)
        assert (job.state, job.attempts, job.payload, job.due_at) == (JobState.DEAD, 1, b"work", None)
        assert job.last_error is not None
        assert (job.last_error.kind, job.last_error.attempt) == ("ValueError", 1)
        assert job.finished_at is not None

    def test_a_burial_without_an_error_records_none(self, harness: BackendHarness) -> None:
        lease = harness.leased()
        harness.backend.bury([Failure(lease=lease)])
        assert harness.job(lease.job.id).errors == ()

    def test_an_uncounted_burial_gives_the_attempt_back(self, harness: BackendHarness) -> None:
        lease = harness.leased()
        harness.backend.bury([Failure(lease=lease, counted=False)])
        assert harness.job(lease.job.id).attempts == 0

    def test_a_dead_job_is_never_leased_or_promoted(self, harness: BackendHarness) -> None:
        lease = harness.leased()
        harness.backend.bury([Failure(lease=lease)])
        harness.advance(harness.span)
        assert harness.lease() == []
        assert harness.promote().next_due is None

    def test_of_two_burials_of_one_lease_the_first_is_recorded(self, harness: BackendHarness) -> None:
        lease = harness.leased()
        failures = [Failure(lease=lease, error=ErrorDetail(kind=kind)) for kind in ("First", "Second")]
        assert list(harness.backend.bury(failures)) == [lease]
        assert [error.kind for error in harness.job(lease.job.id).errors] == ["First"]

    def test_a_repeated_burial_is_refused_and_changes_nothing(self, harness: BackendHarness) -> None:
        job, lease = in_state(harness, JobState.DEAD)
        assert list(harness.backend.bury([Failure(lease=lease, error=ErrorDetail(kind="Late"))])) == [lease]
        assert harness.job(job.id) == job

    def test_without_retention_the_job_is_gone_at_once(self, open_harness: OpenHarness) -> None:
        harness = open_harness(Retention(dead=0.0))
        lease = harness.leased(id="again")
        assert not harness.backend.bury([Failure(lease=lease, error=ONCE)])
        assert harness.find("again") is None
        assert harness.add(id="again").errors == ()

    def test_burying_nothing_is_harmless(self, harness: BackendHarness) -> None:
        assert list(harness.backend.bury([])) == []

    def test_many_are_buried_in_one_call(self, harness: BackendHarness) -> None:
        harness.add_many(1_500)
        assert not harness.backend.bury([Failure(lease=lease, error=ONCE) for lease in harness.lease(2_000)])
        assert harness.counts()[JobState.DEAD] == 1_500
