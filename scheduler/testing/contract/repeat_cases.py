"""The cases of tests with lost replies: for each method, the situation of the call and the result of a repeat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from scheduler.backend import Backend
from scheduler.identity import new_token
from scheduler.jobs import NewJob
from scheduler.leases import Completion, Failure, Lease, MoveAnswer
from scheduler.states import JobState
from scheduler.testing.harness import LONG, BackendHarness
from scheduler.testing.job_states import ONCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """
    A call of one method whose reply is lost.

    Attributes:
        prepare: Prepares a new queue, and returns the argument for `call`.
        call: Makes the call.
        compared: Returns the part of the result that is compared.
        again: The expected part of the result of a repeat after the call took effect. None = as of the first call.
        wait: How long to wait before the call, in spans of the harness.
    """

    prepare: Callable[[BackendHarness, str], Any]
    call: Callable[[Backend, str, Any], Any]
    compared: Callable[[Any], object] = lambda result: result
    again: object = None
    wait: float = 0.0


def _something(harness: BackendHarness, queue: str) -> None:
    harness.add(queue=queue, id="j0")


def _paused(harness: BackendHarness, queue: str) -> None:
    harness.backend.pause(queue)


def _new_jobs(harness: BackendHarness, queue: str) -> Sequence[NewJob]:
    return [harness.new(queue=queue, id=f"j{number}", delay=delay) for number, delay in enumerate([None, LONG, 0.0])]


def _waiting(harness: BackendHarness, queue: str) -> Sequence[str]:
    harness.enqueue(*(harness.new(queue=queue, id=f"j{number}", delay=harness.span) for number in range(3)))
    return ["j0", "j1", "j2"]


def _ready(harness: BackendHarness, queue: str) -> str:
    harness.enqueue(*(harness.new(queue=queue, id=f"j{number}") for number in range(3)))
    harness.promote(queue)
    return new_token()


def _leased(harness: BackendHarness, queue: str) -> Sequence[Lease]:
    harness.enqueue(*(harness.new(queue=queue, id=f"j{number}", max_retries=number) for number in range(3)))
    leases = harness.lease(queues=[queue], duration=harness.span)
    return sorted(leases, key=lambda lease: lease.job.id)


def _dead(harness: BackendHarness, queue: str) -> Sequence[str]:
    harness.backend.bury([Failure(lease=lease, error=ONCE) for lease in _leased(harness, queue)])
    return ["j0", "j1", "j2", "nobody"]


def _succeeded(harness: BackendHarness, queue: str) -> None:
    harness.backend.complete([Completion(lease=lease) for lease in _leased(harness, queue)])


def _failures(leases: Sequence[Lease]) -> Sequence[Failure]:
    counted = [True, False, True]
    return [
        Failure(lease=lease, delay=LONG, error=ONCE, counted=each) for lease, each in zip(leases, counted, strict=True)
    ]


def _ids(leases: Sequence[Lease]) -> Sequence[str]:
    return sorted(lease.job.id for lease in leases)


def _moves(results: Sequence[MoveAnswer]) -> object:
    return [(result.moved, result.state) for result in results]


_REFUSED = ["j0", "j1", "j2"]
CASES: Final = {
    "enqueue": Case(
        prepare=_new_jobs,
        call=lambda backend, _, jobs: backend.enqueue(jobs),
        compared=lambda results: [(result.is_new, result.job.id) for result in results],
    ),
    "promote_due": Case(
        prepare=_waiting,
        wait=1.0,
        call=lambda backend, queue, _: backend.promote_due([queue], 100),
        compared=lambda promotion: promotion.next_due,
    ),
    "lease": Case(
        prepare=_ready,
        # So large that each partition's share of the limit covers all its jobs.
        call=lambda backend, queue, token: backend.lease([queue], token=token, worker_id="w", duration=LONG, limit=100),
        compared=lambda leases: sorted(lease.job.id for lease in leases),
    ),
    "renew": Case(
        prepare=_leased,
        call=lambda backend, _, leases: backend.renew(leases, LONG),
        compared=lambda renewal: _ids(renewal.refused),
    ),
    "complete": Case(
        prepare=_leased,
        call=lambda backend, _, leases: backend.complete([Completion(lease=lease, result=b"1") for lease in leases]),
        compared=_ids,
        again=_REFUSED,
    ),
    "retry": Case(
        prepare=_leased,
        call=lambda backend, _, leases: backend.retry(_failures(leases)),
        compared=_ids,
        again=_REFUSED,
    ),
    "bury": Case(
        prepare=_leased,
        call=lambda backend, _, leases: backend.bury(_failures(leases)),
        compared=_ids,
        again=_REFUSED,
    ),
    "release": Case(
        prepare=_leased,
        call=lambda backend, _, leases: backend.release(leases),
        compared=_ids,
        again=_REFUSED,
    ),
    "recover_expired": Case(
        prepare=_leased,
        wait=1.1,
        call=lambda backend, queue, _: backend.recover_expired([queue], 100),
        compared=lambda recovery: (recovery.ready, recovery.dead, recovery.next_expiry),
        again=(0, 0, None),
    ),
    "cancel": Case(
        prepare=_waiting,
        call=lambda backend, queue, ids: backend.cancel(queue, ids),
        compared=_moves,
        again=[(False, JobState.CANCELLED)] * 3,
    ),
    "requeue": Case(
        prepare=_dead,
        call=lambda backend, queue, ids: backend.requeue(queue, ids),
        compared=_moves,
        again=[(False, JobState.READY)] * 3 + [(False, None)],
    ),
    "get": Case(
        prepare=_waiting,
        call=lambda backend, queue, ids: backend.get(queue, ids),
        compared=sorted,
    ),
    "list": Case(
        prepare=_waiting,
        call=lambda backend, queue, _: backend.list(queue, JobState.SCHEDULED),
        compared=lambda page: sorted(job.id for job in page.jobs),
    ),
    "stats": Case(
        prepare=_something,
        call=lambda backend, queue, _: backend.stats([queue]),
        compared=lambda rows: [(row.version, dict(row.counts)) for row in rows],
    ),
    "pause": Case(prepare=_something, call=lambda backend, queue, _: backend.pause(queue)),
    "resume": Case(
        prepare=lambda harness, queue: harness.backend.pause(queue),
        call=lambda backend, queue, _: backend.resume(queue),
    ),
    "purge": Case(prepare=_dead, call=lambda backend, queue, _: backend.purge(queue, JobState.DEAD, 100), again=0),
    "trim": Case(prepare=_succeeded, wait=2.5, call=lambda backend, queue, _: backend.trim([queue], 100), again=0),
    "ping": Case(prepare=_something, call=lambda backend, _queue, _nothing: backend.ping()),
}
