"""cancel: scheduled, ready, retry_wait → cancelled."""

from __future__ import annotations

import pytest

from scheduler.leases import Completion, MoveAnswer
from scheduler.queues import Retention
from scheduler.states import MOVES, JobState
from scheduler.testing.contract.stand import OpenRig
from scheduler.testing.rig import LONG, Rig
from scheduler.testing.situations import in_state

_CANCELLABLE = sorted(MOVES["cancel"].sources)


class CancelContract:
    @pytest.mark.parametrize("state", _CANCELLABLE)
    def test_a_job_that_does_not_run_is_cancelled_and_never_leased(self, rig: Rig, state: JobState) -> None:
        job, _ = in_state(rig, state, payload=b"work")
        answers = rig.backend.cancel(rig.queue, [job.id])
        assert list(answers) == [MoveAnswer(id=job.id, moved=True, state=JobState.CANCELLED)]
        after = rig.job(job.id)
        assert (after.state, after.due_at, after.payload) == (JobState.CANCELLED, None, b"work")
        assert (after.attempts, after.errors) == (job.attempts, job.errors)
        assert after.finished_at is not None
        rig.advance(rig.span)
        assert rig.lease() == []

    @pytest.mark.parametrize("state", sorted(set(JobState) - set(_CANCELLABLE)))
    def test_any_other_state_forbids_it_and_is_named(self, rig: Rig, state: JobState) -> None:
        job, _ = in_state(rig, state)
        assert list(rig.backend.cancel(rig.queue, [job.id])) == [MoveAnswer(id=job.id, moved=False, state=state)]
        assert rig.job(job.id) == job

    def test_a_job_that_runs_is_not_disturbed(self, rig: Rig) -> None:
        lease = rig.leased()
        rig.backend.cancel(rig.queue, [lease.job.id])
        assert not rig.backend.complete([Completion(lease=lease)])

    def test_one_answer_per_id_in_order_absent_ones_included(self, rig: Rig) -> None:
        first, second = rig.add(delay=LONG), rig.add(delay=LONG)
        answers = rig.backend.cancel(rig.queue, [second.id, "nobody", first.id, second.id])
        assert list(answers) == [
            MoveAnswer(id=second.id, moved=True, state=JobState.CANCELLED),
            MoveAnswer(id="nobody", moved=False, state=None),
            MoveAnswer(id=first.id, moved=True, state=JobState.CANCELLED),
            MoveAnswer(id=second.id, moved=False, state=JobState.CANCELLED),
        ]

    def test_an_id_of_another_queue_is_absent(self, rig: Rig) -> None:
        job = rig.add(queue=rig.new_queue(), delay=LONG)
        assert [answer.state for answer in rig.backend.cancel(rig.queue, [job.id])] == [None]
        assert rig.state(job.id, queue=job.queue) is JobState.SCHEDULED

    @pytest.mark.parametrize("state", _CANCELLABLE)
    def test_without_retention_the_job_is_gone_and_its_id_can_be_used_at_once(
        self, open_rig: OpenRig, state: JobState
    ) -> None:
        """The new job of that id is leased once, whatever the store left behind of the old one."""
        rig = open_rig(Retention())
        job, _ = in_state(rig, state, id="again")
        answers = rig.backend.cancel(rig.queue, ["again"])
        assert list(answers) == [MoveAnswer(id="again", moved=True, state=JobState.CANCELLED)]
        assert rig.find(job.id) is None
        assert not any(rig.counts().values())
        rig.add(id="again", payload=b"new")
        assert [lease.job.payload for lease in rig.lease()] == [b"new"]

    def test_one_cancelled_among_ready_ones_does_not_hold_up_the_others(self, rig: Rig) -> None:
        jobs = rig.add_many(20)
        rig.backend.cancel(rig.queue, [job.id for job in jobs[::2]])
        assert rig.counts()[JobState.READY] == 10
        assert len(rig.lease_once(1)) == 1
        assert {lease.job.id for lease in rig.lease()} < {job.id for job in jobs[1::2]}

    def test_many_are_cancelled_in_one_call(self, rig: Rig) -> None:
        jobs = rig.add_many(1_500, delay=LONG)
        assert all(answer.moved for answer in rig.backend.cancel(rig.queue, [job.id for job in jobs]))
        assert rig.counts()[JobState.CANCELLED] == 1_500

    def test_cancelling_nothing_is_harmless(self, rig: Rig) -> None:
        assert list(rig.backend.cancel(rig.queue, [])) == []
