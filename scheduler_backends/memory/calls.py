"""What each call of the contract does, queue by queue and job by job. Under the store's lock, arguments checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from scheduler.jobs import NewJob
from scheduler.leases import Completion, Enqueued, Failure, Lease, MoveAnswer, Promotion, Recovery
from scheduler.states import MOVES, JobState, Move
from scheduler_backends.memory.groups import LeaseBatch
from scheduler_backends.memory.queues import MemoryQueue
from scheduler_backends.memory.store import Store
from scheduler_backends.memory.stored_job import StoredJob


def enqueue(store: Store, jobs: Iterable[NewJob], now: datetime) -> list[Enqueued]:
    """One answer a job."""
    answers = []
    for new in jobs:
        queue = store.queue(new.queue)
        row = queue.jobs.get(new.id)
        is_new = row is None or row.nonce == new.nonce
        answers.append(Enqueued(job=(row or queue.store(new, now)).snapshot(), is_new=is_new))
    return answers


def promote(store: Store, names: Sequence[str], limit: int, now: datetime) -> Promotion:
    """As many as are due, at most *limit*."""
    queues = store.in_turn("promote", names)
    moved = 0
    for queue in queues:
        more = queue.promote(now, limit - moved)
        if more:
            moved += more
            store.had_turn("promote", queue)
    return Promotion(moved=moved, next_due=_seconds_until((queue.next_due() for queue in queues), now))


def lease(
    store: Store, names: Sequence[str], *, token: str, worker_id: str, duration: float, limit: int, now: datetime
) -> list[Lease]:
    """What is held under *token* already, and more up to *limit*; each queue gets an equal share of the rest."""
    queues = store.in_turn("lease", names)
    leases: list[Lease] = []
    for queue in queues:
        for group in queue.leases.held(token):
            queue.leases.extend(group, duration, now)
            leases += _leases(group.rows.values(), group)
    serving = [queue for queue in queues if queue.ready and not queue.paused]
    while serving and len(leases) < limit:
        share = max(1, (limit - len(leases)) // len(serving))
        for queue in serving[: limit - len(leases)]:
            held = queue.leases.held(token)
            group = held[0] if held else queue.leases.open(token, worker_id, duration, now)
            leases += _leases(queue.lease(group, share), group)
            store.had_turn("lease", queue)
        serving = [queue for queue in serving if queue.ready]
    return leases


def _leases(rows: Iterable[StoredJob], group: LeaseBatch) -> list[Lease]:
    return [Lease(job=row.snapshot(), token=group.token, expires_at=group.expires_at) for row in rows]


def renew(store: Store, leases: Iterable[Lease], now: datetime, *, duration: float) -> list[Lease]:
    """Those that are named; answers the refused."""
    refused = []
    renewed: dict[LeaseBatch, tuple[MemoryQueue, set[str]]] = {}
    for asked in leases:
        held = store.held(asked)
        if held is None:
            refused.append(asked)
        else:
            renewed.setdefault(held.group, (held.queue, set()))[1].add(held.row.id)
    for group, (queue, named) in renewed.items():
        queue.leases.renew(group, named, duration, now)
    return refused


def complete(store: Store, completions: Iterable[Completion], now: datetime) -> list[Lease]:
    """Answers the refused."""
    refused = []
    for completion in completions:
        held = store.held(completion.lease)
        if held is None:
            refused.append(completion.lease)
        else:
            held.row.result = completion.result
            held.queue.finish(held.row, JobState.SUCCEEDED, now)
    return refused


def retry(store: Store, failures: Iterable[Failure], now: datetime) -> list[Lease]:
    """Answers the refused."""
    refused = []
    for failure in failures:
        held = store.held(failure.lease)
        if held is None:
            refused.append(failure.lease)
        else:
            held.row.record(failure, now)
            held.queue.retry(held.row, failure.delay, now)
    return refused


def bury(store: Store, failures: Iterable[Failure], now: datetime) -> list[Lease]:
    """Answers the refused."""
    refused = []
    for failure in failures:
        held = store.held(failure.lease)
        if held is None:
            refused.append(failure.lease)
        else:
            held.row.record(failure, now)
            held.queue.finish(held.row, JobState.DEAD, now)
    return refused


def release(store: Store, leases: Iterable[Lease], _: datetime) -> list[Lease]:
    """Each goes before those released earlier; answers the refused."""
    refused = []
    for given in leases:
        held = store.held(given)
        if held is None:
            refused.append(given)
        else:
            held.queue.release(held.row)
    return refused


def recover(store: Store, names: Sequence[str], limit: int, now: datetime) -> Recovery:
    """Whole lease calls, until *limit* jobs have moved."""
    queues = store.in_turn("recover", names)
    ready = dead = 0
    for queue in queues:
        while ready + dead < limit and (rows := queue.leases.expired(now)):
            alive = sum(queue.recover(row, now) for row in rows)
            ready, dead = ready + alive, dead + len(rows) - alive
            store.had_turn("recover", queue)
    return Recovery(ready=ready, dead=dead, next_expiry=_seconds_until((q.leases.next_expiry() for q in queues), now))


def cancel(store: Store, ids: Iterable[str], now: datetime, *, name: str) -> list[MoveAnswer]:
    """One answer an id."""
    queue = store.seen(name)
    return [
        _moved(queue, job_id, MOVES["cancel"], lambda row: queue.finish(row, JobState.CANCELLED, now)) for job_id in ids
    ]


def requeue(store: Store, ids: Iterable[str], now: datetime, *, name: str) -> list[MoveAnswer]:
    """One answer an id."""
    queue = store.seen(name)
    return [_moved(queue, job_id, MOVES["requeue"], lambda row: queue.requeue(row, now)) for job_id in ids]


def _moved(queue: MemoryQueue, job_id: str, move: Move, make: Callable[[StoredJob], None]) -> MoveAnswer:
    row = queue.jobs.get(job_id)
    if row is None:
        return MoveAnswer(id=job_id, moved=False, state=None)
    if row.state not in move.sources:
        return MoveAnswer(id=job_id, moved=False, state=row.state)
    make(row)
    (state,) = move.targets
    return MoveAnswer(id=job_id, moved=True, state=state)


def trim(store: Store, names: Sequence[str], limit: int, now: datetime) -> int:
    """Answers how many went."""
    gone = 0
    for queue in store.in_turn("trim", names):
        more = queue.trim(now, limit - gone)
        if more:
            gone += more
            store.had_turn("trim", queue)
    return gone


def _seconds_until(moments: Iterable[datetime | None], now: datetime) -> float | None:
    first = min((moment for moment in moments if moment is not None), default=None)
    return None if first is None else max(0.0, (first - now).total_seconds())
