"""The ability TopologyAdmin: changing the versions and partitions of a queue in use (guarantee 25)."""

from __future__ import annotations

import pytest

from scheduler.abilities import TopologyAdmin
from scheduler.backend import Backend
from scheduler.errors import ConfigError, TopologyError
from scheduler.leases import Completion
from scheduler.states import JobState
from scheduler.testing.contract.offered import needs
from scheduler.testing.contract.topology_fixtures import TopologyFixture, TopologyFixtures
from scheduler.testing.harness import LONG
from scheduler.testing.job_states import in_state
from scheduler.topology import MAX_PARTITIONS, VersionState


class _Spoken(int):
    def __str__(self) -> str:
        return "one"

    __repr__ = __str__


@needs(TopologyAdmin)
class TopologyContract(TopologyFixtures):
    def test_the_topology_of_an_unused_queue_is_what_it_would_be_created_with(
        self, topology_fixture: TopologyFixture
    ) -> None:
        topology = topology_fixture.admin.topology(topology_fixture.harness.queue)
        assert topology.queue == topology_fixture.harness.queue
        assert [version.state for version in topology.versions] == [VersionState.ACTIVE]
        assert topology.active.partitions >= 1
        job = topology_fixture.harness.add()
        assert job.queue_version == topology.active.version
        after = topology_fixture.admin.topology(topology_fixture.harness.queue)
        assert (after.active, after.draining) == (topology.active, ())

    def test_jobs_are_stored_in_the_partitions_of_the_active_version(self, topology_fixture: TopologyFixture) -> None:
        topology_fixture.promote(partitions=5)
        jobs = topology_fixture.harness.add_many(40)
        assert {job.partition for job in jobs} <= set(range(5))
        assert len({job.partition for job in jobs}) > 1
        assert {job.queue_version for job in jobs} == {topology_fixture.next}

    def test_numbers_are_kept_as_plain_ones(self, topology_fixture: TopologyFixture) -> None:
        """A member of an enum, for example, may have its own text."""
        topology = topology_fixture.admin.promote_queue_version(
            topology_fixture.harness.queue, _Spoken(topology_fixture.next), _Spoken(3)
        )
        assert (topology.active.version, topology.active.partitions) == (topology_fixture.next, 3)
        assert {type(topology.active.version), type(topology.active.partitions)} == {int}

    def test_a_promoted_version_takes_the_new_jobs_and_the_old_one_is_served(
        self, topology_fixture: TopologyFixture
    ) -> None:
        harness = topology_fixture.harness
        before = topology_fixture.admin.topology(harness.queue)
        old = [job.id for job in (*harness.add_many(5), *harness.add_many(5, delay=harness.span))]
        topology = topology_fixture.admin.promote_queue_version(harness.queue, topology_fixture.next, 3)
        assert topology == topology_fixture.admin.topology(harness.queue)
        assert (topology.active.version, topology.active.partitions) == (topology_fixture.next, 3)
        assert [version.version for version in topology.draining] == [topology_fixture.first]
        assert topology.epoch > before.epoch
        new = [job.id for job in harness.add_many(5)]
        harness.advance(harness.span)
        leases = harness.lease()
        assert sorted(lease.job.id for lease in leases) == sorted([*old, *new])
        assert not harness.backend.complete([Completion(lease=lease) for lease in leases])

    def test_a_repeat_with_the_same_figures_changes_nothing(self, topology_fixture: TopologyFixture) -> None:
        topology_fixture.promote(3)
        before = topology_fixture.admin.topology(topology_fixture.harness.queue)
        assert (
            topology_fixture.admin.promote_queue_version(topology_fixture.harness.queue, topology_fixture.next, 3)
            == before
        )
        assert topology_fixture.admin.topology(topology_fixture.harness.queue) == before

    def test_versions_only_grow_and_never_change(self, topology_fixture: TopologyFixture) -> None:
        queue, promote = topology_fixture.harness.queue, topology_fixture.admin.promote_queue_version
        promote(queue, topology_fixture.next + 4, 3)
        topology_fixture.complete()
        before = topology_fixture.admin.topology(queue)
        for version, partitions in (
            (topology_fixture.next + 4, 4),
            (topology_fixture.next, 3),
            (topology_fixture.first, before.active.partitions),
        ):
            with pytest.raises(TopologyError):
                promote(queue, version, partitions)
        assert topology_fixture.admin.topology(queue) == before

    @pytest.mark.parametrize("partitions", [0, -1, MAX_PARTITIONS + 1, True, 1.5, "2"], ids=repr)
    def test_an_impossible_number_of_partitions_is_refused(
        self, topology_fixture: TopologyFixture, partitions: int
    ) -> None:
        with pytest.raises(ConfigError) as refusal:
            topology_fixture.promote(partitions)
        assert refusal.value.field == "partitions"
        assert topology_fixture.versions() == [topology_fixture.first]

    @pytest.mark.parametrize("version", [0, -1, True, 1.5, "2"], ids=repr)
    def test_an_impossible_version_is_refused(self, topology_fixture: TopologyFixture, version: int) -> None:
        with pytest.raises(ConfigError) as refusal:
            topology_fixture.admin.promote_queue_version(topology_fixture.harness.queue, version, 2)
        assert refusal.value.field == "version"

    @pytest.mark.parametrize("state", sorted(JobState))
    def test_an_id_stays_taken_while_its_version_drains(
        self, topology_fixture: TopologyFixture, state: JobState
    ) -> None:
        harness = topology_fixture.harness
        job, _ = in_state(harness, state)
        topology_fixture.promote()
        (result,) = harness.enqueue(harness.new(id=job.id, payload=b"second"))
        assert not result.is_new
        assert result.job == harness.job(job.id) == job

    def test_jobs_of_a_draining_version_make_every_move_within_it(self, topology_fixture: TopologyFixture) -> None:
        harness = topology_fixture.harness
        dead, _ = in_state(harness, JobState.DEAD)
        later = harness.add(delay=LONG)
        held = harness.leased(harness.span)
        topology_fixture.promote()
        assert harness.backend.requeue(harness.queue, [dead.id])[0].moved
        assert harness.backend.cancel(harness.queue, [later.id])[0].moved
        assert not harness.backend.renew([held], harness.span).refused
        harness.advance(1.1 * harness.span)
        assert harness.recover() == (1, 0)
        leases = harness.lease()
        assert {lease.job.id for lease in leases} == {dead.id, held.job.id}
        assert {lease.job.queue_version for lease in leases} == {topology_fixture.first}

    def test_a_pause_covers_every_version(self, topology_fixture: TopologyFixture) -> None:
        harness = topology_fixture.harness
        harness.add()
        harness.backend.pause(harness.queue)
        topology_fixture.promote()
        harness.add()
        assert harness.lease() == []
        assert {row.paused for row in harness.backend.stats([harness.queue])} == {True}
        harness.backend.resume(harness.queue)
        assert len(harness.lease()) == 2

    def test_stats_and_lists_cover_every_version(self, topology_fixture: TopologyFixture) -> None:
        harness = topology_fixture.harness
        harness.add_many(3, delay=LONG)
        topology_fixture.promote(4)
        harness.add_many(2, delay=LONG)
        rows = harness.backend.stats([harness.queue])
        assert [(row.version, row.counts[JobState.SCHEDULED]) for row in rows] == [
            (topology_fixture.first, 3),
            (topology_fixture.next, 2),
        ]
        assert rows[1].partitions == 4
        assert len({job.id for job in harness.listed(JobState.SCHEDULED, limit=2)}) == 5
        assert harness.backend.purge(harness.queue, JobState.SCHEDULED, 100) == 5

    def test_other_queues_keep_their_versions(self, topology_fixture: TopologyFixture) -> None:
        other = topology_fixture.harness.new_queue()
        topology_fixture.promote()
        assert topology_fixture.admin.topology(other).active.version == topology_fixture.first

    def test_queues_of_odd_names_have_versions_of_their_own(self, topology_fixture: TopologyFixture) -> None:
        """Guarantee 20: names of any characters are kept apart."""
        harness, unique = topology_fixture.harness, topology_fixture.harness.new_queue("{}")
        queues = [f"{name}{unique}" for name in ("a", "a:b", "a:b:c", "*", "?", "{a}", "{a", "%s", "ä/日本")]
        harness.queues[:] = queues
        for queue in queues[::2]:
            topology_fixture.admin.promote_queue_version(queue, topology_fixture.next, 3)
        versions = [topology_fixture.admin.topology(queue).active.version for queue in queues]
        assert versions == [
            topology_fixture.next if number % 2 == 0 else topology_fixture.first for number in range(len(queues))
        ]

    def test_a_second_backend_finds_and_fills_the_new_version(
        self, topology_fixture: TopologyFixture, second: Backend
    ) -> None:
        """It may have cached an older version of the queue."""
        harness = topology_fixture.harness
        second.enqueue([harness.new()])
        topology_fixture.promote()
        (result,) = second.enqueue([harness.new()])
        assert result.job.queue_version == topology_fixture.next
        harness.add()
        harness.promote()
        seen = {lease.job.id for lease in harness.lease()}
        assert len(seen) == 3
