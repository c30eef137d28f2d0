"""promote_due: scheduled, retry_wait → ready."""

from __future__ import annotations

import pytest

from scheduler.leases import Failure
from scheduler.states import JobState
from scheduler.testing.harness import LONG, BackendHarness
from scheduler.testing.reading import TURNS


class PromoteContract:
    def test_a_due_job_becomes_ready_and_not_before(self, harness: BackendHarness) -> None:
        job = harness.add(delay=2 * harness.span)
        harness.advance(harness.span)
        assert harness.lease() == []
        assert harness.state(job.id) is JobState.SCHEDULED
        harness.advance(1.1 * harness.span)
        assert harness.state(job.id) is JobState.READY
        assert [lease.job.id for lease in harness.lease()] == [job.id]

    def test_a_due_retry_becomes_ready(self, harness: BackendHarness) -> None:
        lease = harness.leased()
        assert not harness.backend.retry([Failure(lease=lease, delay=harness.span)])
        assert harness.state(lease.job.id) is JobState.RETRY_WAIT
        harness.advance(harness.span)
        assert harness.state(lease.job.id) is JobState.READY

    def test_run_at_stays_and_due_at_goes(self, harness: BackendHarness) -> None:
        job = harness.add(delay=harness.span)
        assert job.due_at is not None
        assert job.due_at >= job.run_at
        harness.advance(harness.span)
        promoted = harness.job(job.id)
        assert (promoted.run_at, promoted.due_at) == (job.run_at, None)

    def test_next_due_is_the_time_to_the_earliest_job(self, harness: BackendHarness) -> None:
        other = harness.new_queue()
        harness.add(delay=50.0)
        harness.add(delay=LONG)
        harness.add(delay=20.0, queue=other)
        assert harness.promote(harness.queue).next_due == pytest.approx(50.0, abs=5.0)
        assert harness.promote(harness.queue, other).next_due == pytest.approx(20.0, abs=5.0)
        if harness.clock:
            harness.advance(7.5)
            assert harness.promote(harness.queue, other).next_due == pytest.approx(12.5, abs=0.002)

    def test_next_due_is_none_where_nothing_waits(self, harness: BackendHarness) -> None:
        harness.add()
        promotion = harness.promote()
        assert promotion.next_due is None
        assert harness.backend.promote_due([harness.new_queue()], 10).next_due is None

    def test_at_most_limit_are_promoted_and_next_due_is_zero_while_more_are_due(self, harness: BackendHarness) -> None:
        harness.add_many(7, delay=harness.span)
        harness.wait(harness.span)
        moved = 0
        for _ in range(TURNS):
            promotion = harness.backend.promote_due([harness.queue], 2)
            assert promotion.moved <= 2
            moved += promotion.moved
            if promotion.next_due is None:
                break
            assert promotion.next_due == 0.0
        # A store that derives "ready" from the time moves no jobs. Any other store moves each once.
        assert moved in (0, 7)
        assert harness.counts()[JobState.READY] == 7

    def test_next_due_covers_only_the_named_queues(self, harness: BackendHarness) -> None:
        other = harness.new_queue()
        harness.add(queue=other, delay=LONG)
        assert harness.promote(harness.queue).next_due is None

    def test_a_promoted_job_is_promoted_once(self, harness: BackendHarness) -> None:
        harness.add(delay=harness.span)
        harness.advance(harness.span)
        assert harness.promote().moved == 0
        assert len(harness.lease()) == 1
        assert harness.lease() == []

    def test_many_due_jobs_are_all_promoted(self, harness: BackendHarness) -> None:
        harness.add_many(2_000, delay=harness.span)
        harness.advance(harness.span)
        assert harness.counts()[JobState.READY] == 2_000
