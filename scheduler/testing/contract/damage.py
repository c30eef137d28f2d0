"""
A record that cannot be read is never run and affects no other.

A store that decodes records joins by the class attribute `damages` of its test class: for each case, how to spoil one
job's record behind the store's back. `damages_of_id` says how to give one an id that no job can have. Where other
records can be spoilt as well, such as those of a queue's partitions, `damages_of_queue` says how. Where all are empty
there is nothing to decode, and no test is collected.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import ClassVar, Final

import pytest

from scheduler.leases import Completion
from scheduler.states import JobState
from scheduler.testing.contract.damage_cases import (
    FINISHED,
    SETTLES,
    STATES,
    Damage,
    IdDamage,
    QueueDamage,
    check_told,
    placed,
    run_by_worker,
    spoilt_job,
    until_it_would_run,
    walked,
)
from scheduler.testing.contract.offered import join, leave_out
from scheduler.testing.harness import LONG, BackendHarness

_WHAT: Final = "records that can be spoilt"


class DamageContract:
    damages: ClassVar[Mapping[str, Damage]] = {}
    """The cases by name: see `Damage`."""

    damages_of_queue: ClassVar[Mapping[str, QueueDamage]] = {}
    """The same for what concerns a queue rather than a job."""

    damages_of_id: ClassVar[Mapping[str, IdDamage]] = {}
    """The same for ids that no job can have, where a record can get one."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        backend = getattr(cls, "backend_type", None)
        if cls.damages or cls.damages_of_queue or cls.damages_of_id:
            join(cls, backend, _WHAT)
        offered = {
            "damage": bool(cls.damages),
            "queue_damage": bool(cls.damages_of_queue),
            "id_damage": bool(cls.damages_of_id),
        }
        for name, test in vars(DamageContract).items():
            if name.startswith("test_") and name not in vars(cls):
                setattr(cls, name, test)  # where a subclass brings cases
                if not all(offered[fixture] for fixture in signature(test).parameters if fixture in offered):
                    leave_out(cls, backend, name, _WHAT)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "damage" in metafunc.fixturenames:
            states = _STATES_OF[metafunc.function.__name__]
            cases = [
                pytest.param(damage, state, id=f"{name}-{state.value}")
                for name, damage in self.damages.items()
                for state in damage.states
                if state in states
            ]
            metafunc.parametrize(("damage", "state"), cases)
        elif "id_damage" in metafunc.fixturenames:
            impossible = [
                pytest.param(damage, state, id=f"{name}-{state.value}")
                for name, damage in self.damages_of_id.items()
                for state in damage.states
            ]
            metafunc.parametrize(("id_damage", "state"), impossible)
        elif "queue_damage" in metafunc.fixturenames:
            metafunc.parametrize("queue_damage", list(self.damages_of_queue.values()), ids=list(self.damages_of_queue))

    def test_only_the_job_is_touched_whose_record_is_spoilt(
        self, harness: BackendHarness, damage: Damage, state: JobState
    ) -> None:
        """It never runs, and is dead, or as finished as before, once a worker met it; its neighbours run."""
        spoilt = spoilt_job(harness, damage, state)
        neighbours = {harness.add().id for _ in range(3)}
        check_told(harness, spoilt, damage)
        until_it_would_run(harness, state)
        leases = harness.lease()
        assert {lease.job.id for lease in leases} == neighbours
        assert {lease.job.attempts for lease in leases} == {1}
        job = check_told(harness, spoilt, damage)
        if state is JobState.SUCCEEDED or not damage.waits:
            assert job.state is (state if state is JobState.SUCCEEDED else JobState.DEAD)
        else:
            assert job.state not in (JobState.LEASED, JobState.SUCCEEDED)
        assert harness.counts()[JobState.LEASED] == 3
        assert harness.counts()[job.state] == 1
        assert not harness.backend.complete([Completion(lease=lease) for lease in leases])

    def test_an_operator_can_requeue_and_purge_what_cannot_be_read(
        self, harness: BackendHarness, damage: Damage, state: JobState
    ) -> None:
        """A requeue has it read once more; while that fails it is dead again, and stays until it is purged."""
        spoilt = spoilt_job(harness, damage, state)
        until_it_would_run(harness, state)
        assert not harness.lease()
        kept = check_told(harness, spoilt, damage).state
        for _ in range(2):
            may_move = harness.job(spoilt).state is JobState.DEAD
            (result,) = harness.backend.requeue(harness.queue, [spoilt])
            assert result.moved == may_move
            harness.promote()
            harness.recover()
            leases = harness.lease()
            if result.moved and damage.repaired_by_requeue:
                assert [lease.job.attempts for lease in leases] == [1]
                assert not harness.backend.complete([Completion(lease=lease) for lease in leases])
                return
            assert not leases
            if not damage.waits:
                assert check_told(harness, spoilt, damage).state is kept
        assert harness.backend.purge(harness.queue, harness.job(spoilt).state, 10) == 1
        assert harness.find(spoilt) is None
        assert not any(harness.counts().values())
        assert harness.add(id=spoilt).attempts == 0

    def test_a_job_that_cannot_be_read_can_be_cancelled(
        self, harness: BackendHarness, damage: Damage, state: JobState
    ) -> None:
        spoilt = spoilt_job(harness, damage, state)
        (result,) = harness.backend.cancel(harness.queue, [spoilt])
        assert result.moved
        assert result.state is JobState.CANCELLED
        assert check_told(harness, spoilt, damage).state is JobState.CANCELLED
        assert not harness.lease()
        if harness.clock:
            harness.advance(1.1 * harness.retention.cancelled)
            harness.trim()
            assert harness.find(spoilt) is None

    def test_its_id_stays_taken(self, harness: BackendHarness, damage: Damage, state: JobState) -> None:
        spoilt = spoilt_job(harness, damage, state)
        (taken, new) = harness.enqueue(harness.new(id=spoilt), harness.new())
        assert not taken.is_new
        assert taken.job.id == spoilt
        assert new.is_new
        assert [lease.job.id for lease in harness.lease()] == [new.job.id]

    def test_the_holder_of_a_job_spoilt_meanwhile_settles_the_others(
        self,
        harness: BackendHarness,
        damage: Damage,
        state: JobState,  # noqa: ARG002 - which is leased, in as many jobs as there are calls
    ) -> None:
        """The same call settles them, whatever it makes of the spoilt one, which does not run again."""
        spoilt = set()
        for target, settle in SETTLES.items():
            ids = [job.id for job in harness.add_many(3)]
            leases = list(harness.lease(3))
            damage.write(harness.backend, harness.queue, ids[1])
            spoilt.add(ids[1])
            refused = settle(harness.backend, leases)
            assert {lease.job.id for lease in refused} <= {ids[1]}
            assert {harness.state(ids[0]), harness.state(ids[2])} == {target}
            harness.backend.complete([Completion(lease=lease) for lease in harness.lease() if lease.job.id in ids])
        if harness.clock:
            harness.advance(2.0 * LONG)
            harness.recover()
            assert not spoilt & {lease.job.id for lease in harness.lease()}

    def test_a_worker_lives_and_runs_the_neighbours(
        self, harness: BackendHarness, damage: Damage, state: JobState
    ) -> None:
        spoilt = spoilt_job(harness, damage, state)
        neighbours = {harness.add().id for _ in range(3)}
        ran = run_by_worker(harness, (harness.queue,), neighbours)
        assert spoilt not in ran
        harness.recover()
        assert not harness.lease()
        assert check_told(harness, spoilt, damage).state is JobState.DEAD or damage.waits

    def test_a_list_can_be_walked_past_a_spoilt_record(
        self, harness: BackendHarness, damage: Damage, state: JobState
    ) -> None:
        before = placed(harness, state)
        spoilt = placed(harness, state)
        after = placed(harness, state)
        damage.write(harness.backend, harness.queue, spoilt)
        lists = {one: walked(harness, one) for one in JobState}
        assert sorted(id for id in lists[state] if id != spoilt) == sorted((before, after))
        assert sum(found.count(spoilt) for found in lists.values()) <= 1
        assert sum(map(len, lists.values())) <= 3

    def test_a_record_with_an_impossible_id_stops_no_walk_and_no_other_job(
        self, harness: BackendHarness, id_damage: IdDamage, state: JobState
    ) -> None:
        before = placed(harness, state)
        spoilt = placed(harness, state)
        after = placed(harness, state)
        id_damage.write(harness.backend, harness.queue, spoilt)
        healthy = sorted((before, after))
        lists = {one: walked(harness, one) for one in JobState}
        assert [id for id in sorted(lists[state]) if id in healthy] == healthy
        assert sum(map(len, lists.values())) <= 3
        assert all(spoilt not in found for found in lists.values())
        until_it_would_run(harness, state)
        waited = state not in FINISHED and (harness.clock is not None or state is JobState.READY)
        leases = harness.lease()
        assert sorted(lease.job.id for lease in leases) == (healthy if waited else [])
        lists = {one: walked(harness, one) for one in JobState}
        assert sorted(lists[JobState.LEASED]) == (healthy if waited or state is JobState.LEASED else [])
        assert not harness.backend.complete([Completion(lease=lease) for lease in leases])
        harness.recover()
        harness.trim()
        for kept in FINISHED:
            harness.backend.purge(harness.queue, kept, 10)
        assert not any(walked(harness, one) for one in FINISHED)

    def test_a_queue_whose_record_is_spoilt_stops_no_other(
        self, harness: BackendHarness, queue_damage: QueueDamage
    ) -> None:
        other = harness.new_queue()
        harness.add()
        wanted = {harness.add(queue=other).id for _ in range(3)}
        harness.promote()
        queue_damage.write(harness.backend, harness.queue)
        assert {row.queue for row in harness.backend.stats()} >= {other}
        assert wanted <= run_by_worker(harness, (harness.queue, other), wanted)
        harness.queues.remove(harness.queue)  # nothing is promised of it


_ONLY_READY = (JobState.READY,)
_STATES_OF = {
    "test_only_the_job_is_touched_whose_record_is_spoilt": STATES,
    # However a job came to be buried, it is then the same to an operator.
    "test_an_operator_can_requeue_and_purge_what_cannot_be_read": (JobState.READY, *FINISHED),
    "test_a_job_that_cannot_be_read_can_be_cancelled": _ONLY_READY,
    "test_its_id_stays_taken": _ONLY_READY,
    "test_the_holder_of_a_job_spoilt_meanwhile_settles_the_others": (JobState.LEASED,),
    "test_a_worker_lives_and_runs_the_neighbours": _ONLY_READY,
    "test_a_list_can_be_walked_past_a_spoilt_record": STATES,
}
