"""retry: leased → retry_wait."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from scheduler.jobs import ErrorDetail
from scheduler.leases import Failure
from scheduler.states import JobState
from scheduler.testing.harness import LONG, BackendHarness
from scheduler.testing.job_states import ONCE, in_state


class RetryContract:
    def test_a_failed_job_waits_for_its_delay_with_the_error(self, harness: BackendHarness) -> None:
        job = harness.add(max_retries=2)
        lease = harness.lease_one()
        assert list(harness.backend.retry([Failure(lease=lease, delay=LONG, error=ONCE)])) == []
        after = harness.job(job.id)
        assert (after.state, after.attempts, after.crashes) == (JobState.RETRY_WAIT, 1, 0)
        assert (after.run_at, after.created_at, after.payload) == (job.run_at, job.created_at, job.payload)
        assert after.due_at is not None
        error = after.last_error
        assert error is not None
        assert (error.attempt, error.kind, error.message, error.traceback) == (1, "ValueError", "once", "in the test")
        assert abs(after.due_at - error.at - timedelta(seconds=LONG)) <= timedelta(milliseconds=2)
        if harness.clock:
            assert abs(error.at - harness.clock.now()) <= timedelta(milliseconds=1)

    def test_a_retried_job_is_not_leased_before_its_delay_has_passed(self, harness: BackendHarness) -> None:
        lease = harness.leased()
        harness.backend.retry([Failure(lease=lease, delay=2 * harness.span)])
        harness.advance(harness.span)
        assert harness.lease() == []
        harness.advance(1.1 * harness.span)
        again = harness.lease_one()
        assert (again.job.id, again.job.attempts) == (lease.job.id, 2)

    def test_without_a_delay_it_may_run_again_at_once(self, harness: BackendHarness) -> None:
        lease = harness.leased()
        harness.backend.retry([Failure(lease=lease)])
        assert harness.lease_one().job.id == lease.job.id

    def test_without_an_error_none_is_recorded(self, harness: BackendHarness) -> None:
        lease = harness.leased()
        harness.backend.retry([Failure(lease=lease, delay=LONG)])
        assert harness.job(lease.job.id).errors == ()

    def test_an_uncounted_retry_gives_the_attempt_back(self, harness: BackendHarness) -> None:
        lease = harness.leased()
        harness.backend.retry([Failure(lease=lease, delay=LONG, error=ONCE, counted=False)])
        job = harness.job(lease.job.id)
        assert (job.state, job.attempts) == (JobState.RETRY_WAIT, 0)
        # The error belongs to the attempt in which it happened.
        assert [error.attempt for error in job.errors] == [1]

    def test_retry_ignores_max_retries(self, harness: BackendHarness) -> None:
        """The worker decides whether to retry, not the store."""
        lease = harness.leased(max_retries=0)
        assert not harness.backend.retry([Failure(lease=lease)])
        assert harness.lease_one().job.attempts == 2

    def test_the_newest_ten_errors_are_kept_oldest_first(self, harness: BackendHarness) -> None:
        job = harness.add()
        for number in range(1, 14):
            lease = harness.lease_one()
            harness.backend.retry([Failure(lease=lease, error=ErrorDetail(kind="Error", message=f"no. {number}"))])
        errors = harness.job(job.id).errors
        assert [error.message for error in errors] == [f"no. {number}" for number in range(4, 14)]
        assert [error.attempt for error in errors] == list(range(4, 14))

    def test_of_two_failures_of_one_lease_the_first_is_recorded(self, harness: BackendHarness) -> None:
        lease, alike = harness.leased(), harness.leased()
        failures = [
            Failure(lease=lease, delay=LONG, error=ErrorDetail(kind="First")),
            Failure(lease=replace(alike), delay=LONG, error=ErrorDetail(kind="First")),
            Failure(lease=lease, error=ErrorDetail(kind="Second"), counted=False),
            Failure(lease=alike, error=ErrorDetail(kind="Second"), counted=False),
        ]
        assert {each.key for each in harness.backend.retry(failures)} == {lease.key, alike.key}
        for each in (lease, alike):
            job = harness.job(each.job.id)
            assert (job.state, job.attempts) == (JobState.RETRY_WAIT, 1)
            assert [error.kind for error in job.errors] == ["First"]

    def test_a_repeat_is_refused_and_changes_nothing(self, harness: BackendHarness) -> None:
        job, lease = in_state(harness, JobState.RETRY_WAIT)
        failure = Failure(lease=lease, delay=1.0, error=ErrorDetail(kind="Late"), counted=False)
        assert list(harness.backend.retry([failure])) == [lease]
        assert harness.job(job.id) == job

    def test_each_failure_of_a_batch_has_its_own_delay_and_error(self, harness: BackendHarness) -> None:
        harness.add_many(3)
        leases = harness.lease()
        details = [ErrorDetail(kind="A"), None, ErrorDetail(kind="C")]
        failures = [
            Failure(lease=lease, delay=LONG + number, error=detail)
            for number, (lease, detail) in enumerate(zip(leases, details, strict=True))
        ]
        assert list(harness.backend.retry(failures)) == []
        jobs = [harness.job(lease.job.id) for lease in leases]
        assert [job.last_error.kind if job.last_error else None for job in jobs] == ["A", None, "C"]
        due = [job.due_at for job in jobs if job.due_at]
        assert due == sorted(due)
        assert due[2] - due[0] == timedelta(seconds=2)

    def test_retrying_nothing_is_harmless(self, harness: BackendHarness) -> None:
        assert list(harness.backend.retry([])) == []

    def test_many_are_retried_in_one_call(self, harness: BackendHarness) -> None:
        harness.add_many(1_500)
        leases = harness.lease(2_000)
        assert not harness.backend.retry([Failure(lease=lease, delay=LONG, error=ONCE) for lease in leases])
        assert harness.counts()[JobState.RETRY_WAIT] == 1_500
