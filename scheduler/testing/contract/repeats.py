"""
Lost answers: a call that failed, before or after its effect, is repeated, and the store holds what one call leaves.

Guarantee 7. Each case is played on two queues: on one the call succeeds at once, on the other it fails first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from scheduler.backend import Backend
from scheduler.errors import BackendUnavailable
from scheduler.jobs import Job
from scheduler.queues import Retention
from scheduler.states import JobState
from scheduler.testing.clock import START
from scheduler.testing.contract.repeat_cases import CASES
from scheduler.testing.contract.stand import OpenRig
from scheduler.testing.faulty_backend import faulty
from scheduler.testing.rig import LONG, Rig

_KEPT = Retention(succeeded=2.0, cancelled=2.0, dead=LONG)


class RepeatsContract:
    @pytest.mark.parametrize("when", ["before", "after"])
    @pytest.mark.parametrize("method", sorted(CASES))
    def test_a_call_repeated_after_a_lost_answer_leaves_what_one_call_leaves(
        self, open_rig: OpenRig, method: str, when: str
    ) -> None:
        rig = open_rig(_KEPT)
        case = CASES[method]
        once, repeated = rig.queue, rig.new_queue()
        first, second = case.prepare(rig, once), case.prepare(rig, repeated)
        if case.wait:
            rig.wait(case.wait * rig.span)

        answer = case.told(case.call(rig.backend, once, first))
        flaky = faulty(rig.backend)
        flaky.faults.before(method) if when == "before" else flaky.faults.after(method)
        with pytest.raises(BackendUnavailable):
            case.call(flaky, repeated, second)
        again = case.told(case.call(flaky, repeated, second))

        assert again == (answer if when == "before" or case.again is None else case.again)
        assert _held(rig, repeated) == _held(rig, once)

    def test_every_contract_method_is_tried(self) -> None:
        assert set(CASES) == Backend.__abstractmethods__ - {"from_url", "close"}  # closing twice: life


def _held(rig: Rig, queue: str) -> object:
    """All that the reads tell of a queue, its name left out; moments too where time is real and goes on."""
    listed = {state: [_told(rig, job) for job in _by_id(rig.listed(state, queue=queue))] for state in JobState}
    ids = [job.id for jobs in listed.values() for job in jobs]
    got = {id: _told(rig, job) for id, job in rig.backend.get(queue, ids).items()}
    numbers = [replace(row, queue="", oldest_ready_age=None) for row in rig.backend.stats([queue])]
    return listed, got, [(row.version, row.paused, dict(row.counts)) for row in numbers]


def _by_id(jobs: Sequence[Job]) -> Sequence[Job]:
    return sorted(jobs, key=lambda job: job.id)


def _told(rig: Rig, job: Job) -> Job:
    if rig.clock:
        return replace(job, queue="")
    moment = START
    return replace(
        job,
        queue="",
        run_at=moment,
        due_at=job.due_at and moment,
        finished_at=job.finished_at and moment,
        lease_expires_at=job.lease_expires_at and moment,
        errors=tuple(replace(error, at=moment) for error in job.errors),
        created_at=moment,
    )
