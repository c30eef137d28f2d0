"""Runs due jobs on the calling thread: a worker without threads, for tests of programs."""
# ruff: noqa: SLF001 - uses private parts of the worker, so that the worker needs no second public way to run jobs

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduler.backend import Backend
from scheduler.critical import critical
from scheduler.errors import ConfigError
from scheduler.identity import new_token
from scheduler.jobs import ErrorDetail
from scheduler.leases import Failure, Lease
from scheduler.limits import MAX_BATCH, check_count, check_queues
from scheduler.worker import Worker
from scheduler.worker.handlers import HandlerFunction
from scheduler.worker.outcome import Outcome, Verdict, record


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """The outcomes of a call to `drain`: the number of runs per outcome, and the recorded errors in order."""

    succeeded: int = 0
    """Runs whose job was completed."""

    retried: int = 0
    """Runs that failed and whose job will be retried."""

    put_back: int = 0
    """Runs that used up no attempt, because of `Snooze` or because there was no handler."""

    dead: int = 0
    """Runs whose job was buried."""

    lost: int = 0
    """Runs whose lease was no longer held when they ended: the job was leased again or finished elsewhere."""

    errors: tuple[ErrorDetail, ...] = ()
    """The errors that were recorded, the oldest first."""

    @property
    def runs(self) -> int:
        """Return the number of all runs."""
        return self.succeeded + self.retried + self.put_back + self.dead + self.lost


@critical  # when called in an interruptible handler: interrupt it only after this call
def drain(
    backend: Backend,
    handlers: Worker | Mapping[str, HandlerFunction],
    *,
    queues: Sequence[str] | None = None,
    limit: int = 1_000,
) -> Drained:
    """
    Run due jobs one by one on the calling thread until none is due, and record each outcome as a worker does.

    Jobs that handlers enqueue are run too if they are due. On a `ManualClock` time does not pass by itself, so a
    retried job with a delay is not run again. Timeouts of jobs are not enforced.

    Args:
        backend: The backend to lease jobs from.
        handlers: A worker, whose handlers and configuration are used, or a mapping of job types to functions.
        queues: The queues to run. None = those of the given worker or, for a mapping, every queue of *backend*.
        limit: The maximum number of runs.

    Raises:
        ConfigError: An argument is invalid.

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
    if not isinstance(handlers, Mapping):
        raise ConfigError("handlers", f"must be a Worker or a mapping of job types, not {type(handlers).__name__}")
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
