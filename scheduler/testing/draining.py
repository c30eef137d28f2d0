"""Running what is due on the calling thread: a worker without threads, for tests of programs."""
# ruff: noqa: SLF001 - a test looks inside the worker, so that the worker need not offer a second way to run jobs

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduler.backend import Backend
from scheduler.critical import critical
from scheduler.identity import new_token
from scheduler.jobs import ErrorDetail
from scheduler.leases import Failure, Lease
from scheduler.limits import MAX_BATCH, check_count, check_queues
from scheduler.worker import Worker
from scheduler.worker.handlers import HandlerFunction
from scheduler.worker.outcome import Outcome, Verdict, record


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """
    How many runs ended how, and the errors that were recorded, in their order.

    put_back: without using up an attempt, by Snooze or for want of a handler. lost: by the time a run ended, somebody
    else held its job or had finished it.
    """

    succeeded: int = 0
    retried: int = 0
    put_back: int = 0
    dead: int = 0
    lost: int = 0
    errors: tuple[ErrorDetail, ...] = ()

    @property
    def runs(self) -> int:
        """All of them."""
        return self.succeeded + self.retried + self.put_back + self.dead + self.lost


@critical  # in a handler that may be interrupted: it is after this
def drain(
    backend: Backend,
    handlers: Worker | Mapping[str, HandlerFunction],
    *,
    queues: Sequence[str] | None = None,
    limit: int = 1_000,
) -> Drained:
    """
    Run jobs one after the other on this thread until none is due, and record each outcome as a worker does.

    handlers: a worker, whose handlers and configuration are used, or functions by job type. queues: None = those of the
    worker, or every queue that *backend* knows. Jobs that handlers enqueue are run too, if due; *limit* runs end
    it. On a `ManualClock` no time passes by itself, so a job to be retried waits. Timeouts are not enforced.
    """
    worker = handlers if isinstance(handlers, Worker) else _worker(backend, handlers)
    named = worker.config.queues if queues is None and worker is handlers else queues
    runs = check_count("limit", limit, at_least=1)
    _, runner = worker._new_run(backend)
    ended: Counter[str] = Counter()
    errors: list[ErrorDetail] = []
    while ended.total() < runs:
        names = tuple(row.queue for row in backend.stats()) if named is None else check_queues(named)
        lease = _next(backend, worker, names)
        if lease is None:
            break
        outcome = runner.run(lease, runner.open(lease.job))
        lost = record(backend, outcome.verdict, [outcome])
        ended["lost" if lost else _name_of(outcome)] += 1
        if isinstance(outcome.request, Failure) and outcome.request.error is not None:
            errors.append(outcome.request.error)
    return Drained(**ended, errors=tuple(errors))


def _worker(backend: Backend, handlers: Mapping[str, HandlerFunction]) -> Worker:
    worker = Worker(backend)
    for job_type, function in handlers.items():
        worker.handle(job_type, function)
    return worker


def _next(backend: Backend, worker: Worker, queues: Sequence[str]) -> Lease | None:
    if not queues:
        return None
    while backend.promote_due(queues, MAX_BATCH).next_due == 0.0:
        pass
    config = worker.config
    leases = backend.lease(
        queues, token=new_token(), worker_id=config.worker_id, duration=config.lease_duration, limit=1
    )
    return leases[0] if leases else None


def _name_of(outcome: Outcome) -> str:
    if outcome.verdict is Verdict.COMPLETE:
        return "succeeded"
    if outcome.verdict is Verdict.BURY:
        return "dead"
    counted = isinstance(outcome.request, Failure) and outcome.request.counted
    return "retried" if counted else "put_back"
