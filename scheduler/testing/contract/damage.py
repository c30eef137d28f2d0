"""
What cannot be read is never run and harms nobody.

A store that decodes records joins by the class attribute `damages` of its test class: for each case, how to spoil one
job's record behind the store's back. Where other records can be spoilt as well, such as those of a queue's partitions,
`damages_of_queue` says how. Where both are empty there is nothing to decode, and no test is collected.
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
    QueueDamage,
    check_told,
    run_by_worker,
    spoilt_job,
    until_it_would_run,
)
from scheduler.testing.contract.offered import join, leave_out
from scheduler.testing.rig import LONG, Rig

_WHAT: Final = "records that can be spoilt"


class DamageContract:
    damages: ClassVar[Mapping[str, Damage]] = {}
    """The cases by name: see `Damage`."""

    damages_of_queue: ClassVar[Mapping[str, QueueDamage]] = {}
    """The same for what concerns a queue rather than a job."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        backend = getattr(cls, "backend_type", None)
        if cls.damages or cls.damages_of_queue:
            join(cls, backend, _WHAT)
        offered = {"damage": bool(cls.damages), "queue_damage": bool(cls.damages_of_queue)}
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
        elif "queue_damage" in metafunc.fixturenames:
            metafunc.parametrize("queue_damage", list(self.damages_of_queue.values()), ids=list(self.damages_of_queue))

    def test_only_the_job_is_touched_whose_record_is_spoilt(self, rig: Rig, damage: Damage, state: JobState) -> None:
        """It never runs, and is dead, or as finished as before, once a worker met it; its neighbours run."""
        spoilt = spoilt_job(rig, damage, state)
        neighbours = {rig.add().id for _ in range(3)}
        check_told(rig, spoilt, damage)
        until_it_would_run(rig, state)
        leases = rig.lease()
        assert {lease.job.id for lease in leases} == neighbours
        assert {lease.job.attempts for lease in leases} == {1}
        job = check_told(rig, spoilt, damage)
        if state is JobState.SUCCEEDED or not damage.waits:
            assert job.state is (state if state is JobState.SUCCEEDED else JobState.DEAD)
        else:
            assert job.state not in (JobState.LEASED, JobState.SUCCEEDED)
        assert rig.counts()[JobState.LEASED] == 3
        assert rig.counts()[job.state] == 1
        assert not rig.backend.complete([Completion(lease=lease) for lease in leases])

    def test_an_operator_can_requeue_and_purge_what_cannot_be_read(
        self, rig: Rig, damage: Damage, state: JobState
    ) -> None:
        """A requeue has it read once more; while that fails it is dead again, and stays until it is purged."""
        spoilt = spoilt_job(rig, damage, state)
        until_it_would_run(rig, state)
        assert not rig.lease()
        kept = check_told(rig, spoilt, damage).state
        for _ in range(2):
            may_move = rig.job(spoilt).state is JobState.DEAD
            (answer,) = rig.backend.requeue(rig.queue, [spoilt])
            assert answer.moved == may_move
            rig.promote()
            rig.recover()
            leases = rig.lease()
            if answer.moved and damage.mended_by_requeue:
                assert [lease.job.attempts for lease in leases] == [1]
                assert not rig.backend.complete([Completion(lease=lease) for lease in leases])
                return
            assert not leases
            if not damage.waits:
                assert check_told(rig, spoilt, damage).state is kept
        assert rig.backend.purge(rig.queue, rig.job(spoilt).state, 10) == 1
        assert rig.find(spoilt) is None
        assert not any(rig.counts().values())
        assert rig.add(id=spoilt).attempts == 0

    def test_a_job_that_cannot_be_read_can_be_cancelled(self, rig: Rig, damage: Damage, state: JobState) -> None:
        spoilt = spoilt_job(rig, damage, state)
        (answer,) = rig.backend.cancel(rig.queue, [spoilt])
        assert answer.moved
        assert answer.state is JobState.CANCELLED
        assert check_told(rig, spoilt, damage).state is JobState.CANCELLED
        assert not rig.lease()
        if rig.clock:
            rig.advance(1.1 * rig.retention.cancelled)
            rig.trim()
            assert rig.find(spoilt) is None

    def test_its_id_stays_taken(self, rig: Rig, damage: Damage, state: JobState) -> None:
        spoilt = spoilt_job(rig, damage, state)
        (taken, new) = rig.enqueue(rig.new(id=spoilt), rig.new())
        assert not taken.is_new
        assert taken.job.id == spoilt
        assert new.is_new
        assert [lease.job.id for lease in rig.lease()] == [new.job.id]

    def test_the_holder_of_a_job_spoilt_meanwhile_settles_the_others(
        self,
        rig: Rig,
        damage: Damage,
        state: JobState,  # noqa: ARG002 - which is leased, in as many jobs as there are calls
    ) -> None:
        """The same call settles them, whatever it makes of the spoilt one, which does not run again."""
        spoilt = set()
        for target, settle in SETTLES.items():
            ids = [job.id for job in rig.add_many(3)]
            leases = list(rig.lease(3))
            damage.write(rig.backend, rig.queue, ids[1])
            spoilt.add(ids[1])
            refused = settle(rig.backend, leases)
            assert {lease.job.id for lease in refused} <= {ids[1]}
            assert {rig.state(ids[0]), rig.state(ids[2])} == {target}
            rig.backend.complete([Completion(lease=lease) for lease in rig.lease() if lease.job.id in ids])
        if rig.clock:
            rig.advance(2.0 * LONG)
            rig.recover()
            assert not spoilt & {lease.job.id for lease in rig.lease()}

    def test_a_worker_lives_and_runs_the_neighbours(self, rig: Rig, damage: Damage, state: JobState) -> None:
        spoilt = spoilt_job(rig, damage, state)
        neighbours = {rig.add().id for _ in range(3)}
        ran = run_by_worker(rig, (rig.queue,), neighbours)
        assert spoilt not in ran
        rig.recover()
        assert not rig.lease()
        assert check_told(rig, spoilt, damage).state is JobState.DEAD or damage.waits

    def test_a_queue_whose_record_is_spoilt_stops_no_other(self, rig: Rig, queue_damage: QueueDamage) -> None:
        other = rig.new_queue()
        rig.add()
        wanted = {rig.add(queue=other).id for _ in range(3)}
        rig.promote()
        queue_damage.write(rig.backend, rig.queue)
        assert {row.queue for row in rig.backend.stats()} >= {other}
        assert wanted <= run_by_worker(rig, (rig.queue, other), wanted)
        rig.queues.remove(rig.queue)  # nothing is promised of it


_ONLY_READY = (JobState.READY,)
_STATES_OF = {
    "test_only_the_job_is_touched_whose_record_is_spoilt": STATES,
    # However a job came to be buried, it is then the same to an operator.
    "test_an_operator_can_requeue_and_purge_what_cannot_be_read": (JobState.READY, *FINISHED),
    "test_a_job_that_cannot_be_read_can_be_cancelled": _ONLY_READY,
    "test_its_id_stays_taken": _ONLY_READY,
    "test_the_holder_of_a_job_spoilt_meanwhile_settles_the_others": (JobState.LEASED,),
    "test_a_worker_lives_and_runs_the_neighbours": _ONLY_READY,
}
