"""Completing a version that drains: refused while it holds jobs, and then gone for good (guarantee 25)."""

from __future__ import annotations

import pytest

from scheduler.backend import TopologyAdmin
from scheduler.errors import TopologyError
from scheduler.states import LIVE, TERMINAL, JobState
from scheduler.testing.contract.offered import needs
from scheduler.testing.contract.topical import Topical, TopicalStand
from scheduler.testing.situations import in_state


@needs(TopologyAdmin)
class CompletingContract(TopicalStand):
    @pytest.mark.parametrize("state", sorted(JobState))
    def test_a_version_that_holds_jobs_is_not_completed_and_the_refusal_counts_them(
        self, topical: Topical, state: JobState
    ) -> None:
        job, _ = in_state(topical.rig, state)
        topical.promote()
        for finished in ("refuse", "purge", "move") if state in LIVE else ("refuse",):
            with pytest.raises(TopologyError) as refusal:
                topical.complete(finished)
            assert {name: count for name, count in refusal.value.counts.items() if count} == {state.value: 1}
        assert topical.versions() == [topical.first, topical.next]
        assert topical.rig.job(job.id) == job

    def test_an_empty_draining_version_is_completed_and_gone_for_good(self, topical: Topical) -> None:
        topical.promote()
        assert topical.complete() == [topical.next]
        assert topical.complete() == [topical.next]  # a repeat after a lost answer
        assert topical.versions() == [topical.next]

    def test_the_active_version_is_not_completed(self, topical: Topical) -> None:
        with pytest.raises(TopologyError):
            topical.complete()
        assert topical.versions() == [topical.first]

    @pytest.mark.parametrize("state", sorted(TERMINAL))
    def test_finished_jobs_can_be_purged_with_their_version(self, topical: Topical, state: JobState) -> None:
        job, _ = in_state(topical.rig, state)
        topical.promote()
        assert topical.complete("purge") == [topical.next]
        assert topical.rig.find(job.id) is None
        assert not any(topical.rig.counts().values())

    @pytest.mark.parametrize("state", sorted(TERMINAL))
    def test_finished_jobs_can_be_moved_along(self, topical: Topical, state: JobState) -> None:
        rig = topical.rig
        job, _ = in_state(rig, state, payload=b"kept")
        topical.promote(3)
        assert topical.complete("move") == [topical.next]
        moved = rig.job(job.id)
        assert moved.queue_version == topical.next
        assert moved.partition in range(3)
        assert (moved.state, moved.payload, moved.errors, moved.result) == (state, b"kept", job.errors, job.result)
        assert (moved.created_at, moved.finished_at) == (job.created_at, job.finished_at)
        assert not rig.enqueue(rig.new(id=job.id))[0].is_new
        if state is JobState.DEAD:
            assert rig.backend.requeue(rig.queue, [job.id])[0].moved
            assert rig.lease_one().job.id == job.id
