"""promote_due: scheduled, retry_wait → ready."""

from __future__ import annotations

import pytest

from scheduler.leases import Failure
from scheduler.states import JobState
from scheduler.testing.reading import TURNS
from scheduler.testing.rig import LONG, Rig


class PromoteContract:
    def test_a_due_job_becomes_ready_and_not_before(self, rig: Rig) -> None:
        job = rig.add(delay=2 * rig.span)
        rig.advance(rig.span)
        assert rig.lease() == []
        assert rig.state(job.id) is JobState.SCHEDULED
        rig.advance(1.1 * rig.span)
        assert rig.state(job.id) is JobState.READY
        assert [lease.job.id for lease in rig.lease()] == [job.id]

    def test_a_due_retry_becomes_ready(self, rig: Rig) -> None:
        lease = rig.leased()
        assert not rig.backend.retry([Failure(lease=lease, delay=rig.span)])
        assert rig.state(lease.job.id) is JobState.RETRY_WAIT
        rig.advance(rig.span)
        assert rig.state(lease.job.id) is JobState.READY

    def test_run_at_stays_and_due_at_goes(self, rig: Rig) -> None:
        job = rig.add(delay=rig.span)
        assert job.due_at is not None
        assert job.due_at >= job.run_at
        rig.advance(rig.span)
        promoted = rig.job(job.id)
        assert (promoted.run_at, promoted.due_at) == (job.run_at, None)

    def test_next_due_is_the_time_to_the_earliest_job(self, rig: Rig) -> None:
        other = rig.new_queue()
        rig.add(delay=50.0)
        rig.add(delay=LONG)
        rig.add(delay=20.0, queue=other)
        assert rig.promote(rig.queue).next_due == pytest.approx(50.0, abs=5.0)
        assert rig.promote(rig.queue, other).next_due == pytest.approx(20.0, abs=5.0)
        if rig.clock:
            rig.advance(7.5)
            assert rig.promote(rig.queue, other).next_due == pytest.approx(12.5, abs=0.002)

    def test_next_due_is_none_where_nothing_waits(self, rig: Rig) -> None:
        rig.add()
        promotion = rig.promote()
        assert promotion.next_due is None
        assert rig.backend.promote_due([rig.new_queue()], 10).next_due is None

    def test_at_most_limit_are_moved_and_the_answer_says_whether_more_are_due(self, rig: Rig) -> None:
        rig.add_many(7, delay=rig.span)
        rig.wait(rig.span)
        moved = 0
        for _ in range(TURNS):
            promotion = rig.backend.promote_due([rig.queue], 2)
            assert promotion.moved <= 2
            moved += promotion.moved
            if promotion.next_due is None:
                break
            assert promotion.next_due == 0.0
        # A store that derives "ready" moves none; one that moves must move each once.
        assert moved in (0, 7)
        assert rig.counts()[JobState.READY] == 7

    def test_only_the_named_queues_are_promoted_or_told_of(self, rig: Rig) -> None:
        other = rig.new_queue()
        rig.add(queue=other, delay=LONG)
        assert rig.promote(rig.queue).next_due is None

    def test_a_promoted_job_is_promoted_once(self, rig: Rig) -> None:
        rig.add(delay=rig.span)
        rig.advance(rig.span)
        assert rig.promote().moved == 0
        assert len(rig.lease()) == 1
        assert rig.lease() == []

    def test_many_due_jobs_are_all_promoted(self, rig: Rig) -> None:
        rig.add_many(2_000, delay=rig.span)
        rig.advance(rig.span)
        assert rig.counts()[JobState.READY] == 2_000
