"""complete_draining_version: refused while the version holds jobs, and final afterwards (guarantee 25)."""

from __future__ import annotations

import pytest

from scheduler.abilities import TopologyAdmin
from scheduler.errors import TopologyError
from scheduler.states import LIVE, TERMINAL, JobState
from scheduler.testing.contract.offered import needs
from scheduler.testing.contract.topology_fixtures import TopologyFixture, TopologyFixtures
from scheduler.testing.job_states import in_state


@needs(TopologyAdmin)
class CompletingContract(TopologyFixtures):
    @pytest.mark.parametrize("state", sorted(JobState))
    def test_a_version_that_holds_jobs_is_not_completed_and_the_refusal_counts_them(
        self, topology_fixture: TopologyFixture, state: JobState
    ) -> None:
        job, _ = in_state(topology_fixture.harness, state)
        topology_fixture.promote()
        for finished in ("refuse", "purge", "move") if state in LIVE else ("refuse",):
            with pytest.raises(TopologyError) as refusal:
                topology_fixture.complete(finished)
            assert {name: count for name, count in refusal.value.counts.items() if count} == {state.value: 1}
        assert topology_fixture.versions() == [topology_fixture.first, topology_fixture.next]
        assert topology_fixture.harness.job(job.id) == job

    def test_an_empty_draining_version_is_completed_and_gone_for_good(self, topology_fixture: TopologyFixture) -> None:
        topology_fixture.promote()
        assert topology_fixture.complete() == [topology_fixture.next]
        assert topology_fixture.complete() == [topology_fixture.next]  # a repeat after a lost reply
        assert topology_fixture.versions() == [topology_fixture.next]

    def test_the_active_version_is_not_completed(self, topology_fixture: TopologyFixture) -> None:
        with pytest.raises(TopologyError):
            topology_fixture.complete()
        assert topology_fixture.versions() == [topology_fixture.first]

    @pytest.mark.parametrize("state", sorted(TERMINAL))
    def test_finished_jobs_can_be_purged_with_their_version(
        self, topology_fixture: TopologyFixture, state: JobState
    ) -> None:
        job, _ = in_state(topology_fixture.harness, state)
        topology_fixture.promote()
        assert topology_fixture.complete("purge") == [topology_fixture.next]
        assert topology_fixture.harness.find(job.id) is None
        assert not any(topology_fixture.harness.counts().values())

    @pytest.mark.parametrize("state", sorted(TERMINAL))
    def test_finished_jobs_can_be_moved_to_the_active_version(
        self, topology_fixture: TopologyFixture, state: JobState
    ) -> None:
        harness = topology_fixture.harness
        job, _ = in_state(harness, state, payload=b"kept")
        topology_fixture.promote(3)
        assert topology_fixture.complete("move") == [topology_fixture.next]
        moved = harness.job(job.id)
        assert moved.queue_version == topology_fixture.next
        assert moved.partition in range(3)
        assert (moved.state, moved.payload, moved.errors, moved.result) == (state, b"kept", job.errors, job.result)
        assert (moved.created_at, moved.finished_at) == (job.created_at, job.finished_at)
        assert not harness.enqueue(harness.new(id=job.id))[0].is_new
        if state is JobState.DEAD:
            assert harness.backend.requeue(harness.queue, [job.id])[0].moved
            assert harness.lease_one().job.id == job.id
