"""
Lost answers: a call that failed, before or after its effect, is repeated, and the store holds what one call leaves.

Each case is played on two queues side by side: on one the call succeeds at once, on the other it fails first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from scheduler.backend import Backend
from scheduler.errors import BackendUnavailable
from scheduler.identity import new_token
from scheduler.jobs import Job, NewJob
from scheduler.leases import Completion, Failure, Lease, MoveAnswer
from scheduler.queues import Retention
from scheduler.states import JobState
from scheduler.testing.clock import START
from scheduler.testing.contract.stand import OpenRig
from scheduler.testing.faulty_backend import faulty
from scheduler.testing.rig import LONG, Rig
from scheduler.testing.situations import ONCE

_KEPT = Retention(succeeded=2.0, cancelled=2.0, dead=LONG)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """
    One contract method under lost answers.

    prepare: brings a fresh queue to where the call is made, and answers the call's argument. wait: seconds before the
    call, in units of the rig's span. call: makes it. told: what is compared of its answer. again: the same of a repeat
    that came after the effect, None = the same as of the first.
    """

    prepare: Callable[[Rig, str], Any]
    call: Callable[[Backend, str, Any], Any]
    told: Callable[[Any], object] = lambda answer: answer
    again: object = None
    wait: float = 0.0


def _something(rig: Rig, queue: str) -> None:
    rig.add(queue=queue, id="j0")


def _paused(rig: Rig, queue: str) -> None:
    rig.backend.pause(queue)


def _new_jobs(rig: Rig, queue: str) -> Sequence[NewJob]:
    return [rig.new(queue=queue, id=f"j{number}", delay=delay) for number, delay in enumerate([None, LONG, 0.0])]


def _waiting(rig: Rig, queue: str) -> Sequence[str]:
    rig.enqueue(*(rig.new(queue=queue, id=f"j{number}", delay=rig.span) for number in range(3)))
    return ["j0", "j1", "j2"]


def _ready(rig: Rig, queue: str) -> str:
    rig.enqueue(*(rig.new(queue=queue, id=f"j{number}") for number in range(3)))
    rig.promote(queue)
    return new_token()


def _leased(rig: Rig, queue: str) -> Sequence[Lease]:
    rig.enqueue(*(rig.new(queue=queue, id=f"j{number}", max_retries=number) for number in range(3)))
    leases = rig.lease(queues=[queue], duration=rig.span)
    return sorted(leases, key=lambda lease: lease.job.id)


def _dead(rig: Rig, queue: str) -> Sequence[str]:
    rig.backend.bury([Failure(lease=lease, error=ONCE) for lease in _leased(rig, queue)])
    return ["j0", "j1", "j2", "nobody"]


def _succeeded(rig: Rig, queue: str) -> None:
    rig.backend.complete([Completion(lease=lease) for lease in _leased(rig, queue)])


def _failures(leases: Sequence[Lease]) -> Sequence[Failure]:
    counted = [True, False, True]
    return [
        Failure(lease=lease, delay=LONG, error=ONCE, counted=each) for lease, each in zip(leases, counted, strict=True)
    ]


def _ids(leases: Sequence[Lease]) -> Sequence[str]:
    return sorted(lease.job.id for lease in leases)


def _moves(answers: Sequence[MoveAnswer]) -> object:
    return [(answer.moved, answer.state) for answer in answers]


_REFUSED = ["j0", "j1", "j2"]
_CASES = {
    "enqueue": Case(
        prepare=_new_jobs,
        call=lambda backend, _, jobs: backend.enqueue(jobs),
        told=lambda answers: [(answer.is_new, answer.job.id) for answer in answers],
    ),
    "promote_due": Case(
        prepare=_waiting,
        wait=1.0,
        call=lambda backend, queue, _: backend.promote_due([queue], 100),
        told=lambda promotion: promotion.next_due,
    ),
    "lease": Case(
        prepare=_ready,
        # A limit so large that no partition's share of it is smaller than what lies there.
        call=lambda backend, queue, token: backend.lease([queue], token=token, worker_id="w", duration=LONG, limit=100),
        told=lambda leases: sorted(lease.job.id for lease in leases),
    ),
    "renew": Case(
        prepare=_leased,
        call=lambda backend, _, leases: backend.renew(leases, LONG),
        told=lambda renewal: _ids(renewal.refused),
    ),
    "complete": Case(
        prepare=_leased,
        call=lambda backend, _, leases: backend.complete([Completion(lease=lease, result=b"1") for lease in leases]),
        told=_ids,
        again=_REFUSED,
    ),
    "retry": Case(
        prepare=_leased,
        call=lambda backend, _, leases: backend.retry(_failures(leases)),
        told=_ids,
        again=_REFUSED,
    ),
    "bury": Case(
        prepare=_leased,
        call=lambda backend, _, leases: backend.bury(_failures(leases)),
        told=_ids,
        again=_REFUSED,
    ),
    "release": Case(
        prepare=_leased,
        call=lambda backend, _, leases: backend.release(leases),
        told=_ids,
        again=_REFUSED,
    ),
    "recover_expired": Case(
        prepare=_leased,
        wait=1.1,
        call=lambda backend, queue, _: backend.recover_expired([queue], 100),
        told=lambda recovery: (recovery.ready, recovery.dead, recovery.next_expiry),
        again=(0, 0, None),
    ),
    "cancel": Case(
        prepare=_waiting,
        call=lambda backend, queue, ids: backend.cancel(queue, ids),
        told=_moves,
        again=[(False, JobState.CANCELLED)] * 3,
    ),
    "requeue": Case(
        prepare=_dead,
        call=lambda backend, queue, ids: backend.requeue(queue, ids),
        told=_moves,
        again=[(False, JobState.READY)] * 3 + [(False, None)],
    ),
    "get": Case(
        prepare=_waiting,
        call=lambda backend, queue, ids: backend.get(queue, ids),
        told=sorted,
    ),
    "list": Case(
        prepare=_waiting,
        call=lambda backend, queue, _: backend.list(queue, JobState.SCHEDULED),
        told=lambda page: sorted(job.id for job in page.jobs),
    ),
    "stats": Case(
        prepare=_something,
        call=lambda backend, queue, _: backend.stats([queue]),
        told=lambda rows: [(row.version, dict(row.counts)) for row in rows],
    ),
    "pause": Case(prepare=_something, call=lambda backend, queue, _: backend.pause(queue)),
    "resume": Case(
        prepare=lambda rig, queue: rig.backend.pause(queue), call=lambda backend, queue, _: backend.resume(queue)
    ),
    "purge": Case(prepare=_dead, call=lambda backend, queue, _: backend.purge(queue, JobState.DEAD, 100), again=0),
    "trim": Case(prepare=_succeeded, wait=2.5, call=lambda backend, queue, _: backend.trim([queue], 100), again=0),
    "ping": Case(prepare=_something, call=lambda backend, _queue, _nothing: backend.ping()),
}


class RepeatsContract:
    @pytest.mark.parametrize("when", ["before", "after"])
    @pytest.mark.parametrize("method", sorted(_CASES))
    def test_a_call_repeated_after_a_lost_answer_leaves_what_one_call_leaves(
        self, open_rig: OpenRig, method: str, when: str
    ) -> None:
        rig = open_rig(_KEPT)
        case = _CASES[method]
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
        assert set(_CASES) == Backend.__abstractmethods__ - {"from_url", "close"}  # closing twice: life


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
