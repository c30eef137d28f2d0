"""The ability TopologyAdmin: a queue's versions and partitions, changed while it is in use (guarantee 25)."""

from __future__ import annotations

import pytest

from scheduler.backend import Backend, TopologyAdmin
from scheduler.errors import ConfigError, TopologyError
from scheduler.leases import Completion
from scheduler.states import JobState
from scheduler.testing.contract.offered import needs
from scheduler.testing.contract.topical import Topical, TopicalStand
from scheduler.testing.rig import LONG
from scheduler.testing.situations import in_state
from scheduler.topology import MAX_PARTITIONS, VersionState


@needs(TopologyAdmin)
class TopologyContract(TopicalStand):
    def test_an_unused_queue_answers_what_it_would_be_created_with(self, topical: Topical) -> None:
        topology = topical.admin.topology(topical.rig.queue)
        assert topology.queue == topical.rig.queue
        assert [version.state for version in topology.versions] == [VersionState.ACTIVE]
        assert topology.active.partitions >= 1
        job = topical.rig.add()
        assert job.queue_version == topology.active.version
        after = topical.admin.topology(topical.rig.queue)
        assert (after.active, after.draining) == (topology.active, ())

    def test_jobs_lie_in_the_partitions_of_the_active_version(self, topical: Topical) -> None:
        topical.promote(partitions=5)
        jobs = topical.rig.add_many(40)
        assert {job.partition for job in jobs} <= set(range(5))
        assert len({job.partition for job in jobs}) > 1
        assert {job.queue_version for job in jobs} == {topical.next}

    def test_a_promoted_version_takes_the_new_jobs_and_the_old_one_is_served(self, topical: Topical) -> None:
        rig = topical.rig
        before = topical.admin.topology(rig.queue)
        old = [job.id for job in (*rig.add_many(5), *rig.add_many(5, delay=rig.span))]
        topology = topical.admin.promote_queue_version(rig.queue, topical.next, 3)
        assert topology == topical.admin.topology(rig.queue)
        assert (topology.active.version, topology.active.partitions) == (topical.next, 3)
        assert [version.version for version in topology.draining] == [topical.first]
        assert topology.epoch > before.epoch
        new = [job.id for job in rig.add_many(5)]
        rig.advance(rig.span)
        leases = rig.lease()
        assert sorted(lease.job.id for lease in leases) == sorted([*old, *new])
        assert not rig.backend.complete([Completion(lease=lease) for lease in leases])

    def test_a_repeat_with_the_same_figures_changes_nothing(self, topical: Topical) -> None:
        topical.promote(3)
        before = topical.admin.topology(topical.rig.queue)
        assert topical.admin.promote_queue_version(topical.rig.queue, topical.next, 3) == before
        assert topical.admin.topology(topical.rig.queue) == before

    def test_versions_only_grow_and_never_change(self, topical: Topical) -> None:
        queue, promote = topical.rig.queue, topical.admin.promote_queue_version
        promote(queue, topical.next + 4, 3)
        topical.complete()
        before = topical.admin.topology(queue)
        for version, partitions in (
            (topical.next + 4, 4),
            (topical.next, 3),
            (topical.first, before.active.partitions),
        ):
            with pytest.raises(TopologyError):
                promote(queue, version, partitions)
        assert topical.admin.topology(queue) == before

    @pytest.mark.parametrize("partitions", [0, -1, MAX_PARTITIONS + 1, True, 1.5, "2"], ids=repr)
    def test_an_impossible_number_of_partitions_is_refused(self, topical: Topical, partitions: int) -> None:
        with pytest.raises(ConfigError) as refusal:
            topical.promote(partitions)
        assert refusal.value.field == "partitions"
        assert topical.versions() == [topical.first]

    @pytest.mark.parametrize("version", [0, -1, True, 1.5, "2"], ids=repr)
    def test_an_impossible_version_is_refused(self, topical: Topical, version: int) -> None:
        with pytest.raises(ConfigError) as refusal:
            topical.admin.promote_queue_version(topical.rig.queue, version, 2)
        assert refusal.value.field == "version"

    @pytest.mark.parametrize("state", sorted(JobState))
    def test_an_id_stays_taken_while_its_version_drains(self, topical: Topical, state: JobState) -> None:
        rig = topical.rig
        job, _ = in_state(rig, state)
        topical.promote()
        (answer,) = rig.enqueue(rig.new(id=job.id, payload=b"second"))
        assert not answer.is_new
        assert answer.job == rig.job(job.id) == job

    def test_jobs_of_a_draining_version_make_every_move_within_it(self, topical: Topical) -> None:
        rig = topical.rig
        dead, _ = in_state(rig, JobState.DEAD)
        later = rig.add(delay=LONG)
        held = rig.leased(rig.span)
        topical.promote()
        assert rig.backend.requeue(rig.queue, [dead.id])[0].moved
        assert rig.backend.cancel(rig.queue, [later.id])[0].moved
        assert not rig.backend.renew([held], rig.span).refused
        rig.advance(1.1 * rig.span)
        assert rig.recover() == (1, 0)
        leases = rig.lease()
        assert {lease.job.id for lease in leases} == {dead.id, held.job.id}
        assert {lease.job.queue_version for lease in leases} == {topical.first}

    def test_a_pause_covers_every_version(self, topical: Topical) -> None:
        rig = topical.rig
        rig.add()
        rig.backend.pause(rig.queue)
        topical.promote()
        rig.add()
        assert rig.lease() == []
        assert {row.paused for row in rig.backend.stats([rig.queue])} == {True}
        rig.backend.resume(rig.queue)
        assert len(rig.lease()) == 2

    def test_stats_and_lists_cover_every_version(self, topical: Topical) -> None:
        rig = topical.rig
        rig.add_many(3, delay=LONG)
        topical.promote(4)
        rig.add_many(2, delay=LONG)
        rows = rig.backend.stats([rig.queue])
        assert [(row.version, row.counts[JobState.SCHEDULED]) for row in rows] == [
            (topical.first, 3),
            (topical.next, 2),
        ]
        assert rows[1].partitions == 4
        assert len({job.id for job in rig.listed(JobState.SCHEDULED, limit=2)}) == 5
        assert rig.backend.purge(rig.queue, JobState.SCHEDULED, 100) == 5

    def test_other_queues_keep_their_versions(self, topical: Topical) -> None:
        other = topical.rig.new_queue()
        topical.promote()
        assert topical.admin.topology(other).active.version == topical.first

    def test_queues_of_odd_names_have_versions_of_their_own(self, topical: Topical) -> None:
        """Guarantee 20."""
        rig, unique = topical.rig, topical.rig.new_queue("{}")
        queues = [f"{name}{unique}" for name in ("a", "a:b", "a:b:c", "*", "?", "{a}", "{a", "%s", "ä/日本")]
        rig.queues[:] = queues
        for queue in queues[::2]:
            topical.admin.promote_queue_version(queue, topical.next, 3)
        versions = [topical.admin.topology(queue).active.version for queue in queues]
        assert versions == [topical.next if number % 2 == 0 else topical.first for number in range(len(queues))]

    def test_a_second_backend_finds_and_fills_the_new_version(self, topical: Topical, second: Backend) -> None:
        """Whatever it knew of the queue before."""
        rig = topical.rig
        second.enqueue([rig.new()])
        topical.promote()
        (answer,) = second.enqueue([rig.new()])
        assert answer.job.queue_version == topical.next
        rig.add()
        rig.promote()
        seen = {lease.job.id for lease in rig.lease()}
        assert len(seen) == 3
