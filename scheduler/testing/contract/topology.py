"""The ability TopologyAdmin: a queue's versions and partitions, changed while it is in use."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from scheduler.backend import Backend, Finished, TopologyAdmin
from scheduler.errors import ConfigError, TopologyError
from scheduler.leases import Completion
from scheduler.states import LIVE, TERMINAL, JobState
from scheduler.testing.rig import LONG, Rig
from scheduler.testing.situations import in_state
from scheduler.topology import MAX_PARTITIONS, VersionState, partition_of


class Topical(NamedTuple):
    """A rig, its backend as the administrator of versions, and its queue's first version and the next."""

    rig: Rig
    admin: TopologyAdmin
    first: int
    next: int

    def promote(self, partitions: int = 3) -> None:
        """Make the next version active."""
        self.admin.promote_queue_version(self.rig.queue, self.next, partitions)

    def complete(self, finished: Finished = "refuse") -> list[int]:
        """Complete the first version, and answer the versions that are left."""
        topology = self.admin.complete_draining_version(self.rig.queue, self.first, finished=finished)
        return [version.version for version in topology.versions]

    def versions(self) -> list[int]:
        """The versions now."""
        return [version.version for version in self.admin.topology(self.rig.queue).versions]


class TopologyContract:
    @pytest.fixture
    def topical(self, rig: Rig) -> Topical:
        """Skips where the backend has no versions."""
        admin = _admin(rig.backend)
        first = admin.topology(rig.queue).active.version
        return Topical(rig, admin, first, first + 1)

    def test_an_unused_queue_answers_what_it_would_be_created_with(self, topical: Topical) -> None:
        topology = topical.admin.topology(topical.rig.queue)
        assert topology.queue == topical.rig.queue
        assert [version.state for version in topology.versions] == [VersionState.ACTIVE]
        assert topology.active.partitions >= 1
        job = topical.rig.add()
        assert job.queue_version == topology.active.version
        after = topical.admin.topology(topical.rig.queue)
        assert (after.active, after.draining) == (topology.active, ())

    def test_jobs_lie_in_the_partition_of_their_id(self, topical: Topical) -> None:
        """The same in every process and on every store with partitions."""
        topical.promote(partitions=5)
        jobs = topical.rig.add_many(20)
        assert [job.partition for job in jobs] == [partition_of(job.id, 5) for job in jobs]
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
        assert (moved.queue_version, moved.partition) == (topical.next, partition_of(job.id, 3))
        assert (moved.state, moved.payload, moved.errors, moved.result) == (state, b"kept", job.errors, job.result)
        assert (moved.created_at, moved.finished_at) == (job.created_at, job.finished_at)
        assert not rig.enqueue(rig.new(id=job.id))[0].is_new
        if state is JobState.DEAD:
            assert rig.backend.requeue(rig.queue, [job.id])[0].moved
            assert rig.lease_one().job.id == job.id

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


def _admin(backend: Backend) -> TopologyAdmin:
    if not isinstance(backend, TopologyAdmin):
        pytest.skip(f"{type(backend).__name__} does not offer TopologyAdmin")
    return backend
