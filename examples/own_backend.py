"""
Example of a backend: one dict and full scans. It is slow, short and correct: it passes the whole conformance suite.

Read it together with `scheduler.backend`, whose docstrings say what each method must do. A real backend has a server
instead of the dict, and a transaction or a script instead of the lock. This one has no optional abilities: no wake-ups
(so idle workers poll) and no queue versions. `tests/testing/test_own_backend.py` runs the suite for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import zip_longest
from types import MappingProxyType
from typing import TypeVar

from scheduler.backend import Backend
from scheduler.clock import Clock, later
from scheduler.critical import StoreLock
from scheduler.errors import BackendClosed
from scheduler.jobs import AS_ASKED, LEASE_EXPIRED, ErrorDetail, ErrorRecord, Job, NewJob
from scheduler.leases import Completion, Enqueued, Failure, Lease, MoveAnswer, Promotion, Recovery
from scheduler.limits import MAX_ERRORS, check_clock, check_kind, now_of
from scheduler.queues import QueueStats, Retention
from scheduler.states import MOVES, TERMINAL, JobState
from scheduler.urls import RETENTION_OPTIONS, retention_from, split_options

Item = TypeVar("Item", bound=Lease | Completion | Failure)


@dataclass
class Row:
    """A stored job, and data that callers do not see."""

    job: Job
    nonce: str  # distinguishes a repeated enqueue from another job with the same id
    ready_at: datetime  # order within a priority
    token: str | None = None  # of the current lease


class DictBackend(Backend):
    """Backend that keeps jobs in a dict."""

    in_process = True

    def __init__(self, *, clock: Clock | None = None, retention: Retention | None = None) -> None:
        self.clock: Clock | None = check_clock(clock)
        self.retention = Retention() if retention is None else check_kind("retention", retention, Retention)
        self._lock = StoreLock()  # guards everything below
        self._rows: dict[tuple[str, str], Row] = {}
        self._queues: set[str] = set()
        self._paused: set[str] = set()
        self._turn = 0
        self._closed = False

    @classmethod
    def from_url(cls, url: str) -> DictBackend:
        """Return a backend for `own://`, with the retention options that every backend has."""
        _, options = split_options(url, RETENTION_OPTIONS)
        return cls(retention=retention_from(options))

    def _enqueue(self, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        with self._open() as now:
            return [self._store(new, now) for new in jobs]

    def _promote_due(self, queues: Sequence[str], limit: int) -> Promotion:
        with self._open() as now:
            waiting = sorted(self._in(queues, JobState.SCHEDULED, JobState.RETRY_WAIT), key=_due)
            due = [row for row in waiting if _due(row) <= now][:limit]
            for row in due:
                self._move(row, JobState.READY, now)
            return Promotion(moved=len(due), next_due=_seconds_to(waiting[len(due) :], _due, now))

    def _lease(
        self, queues: Sequence[str], *, token: str, worker_id: str, duration: float, limit: int
    ) -> Sequence[Lease]:
        with self._open() as now:
            held = [row for row in self._rows.values() if row.token == token]
            self._turn += 1
            first = self._turn % len(queues)
            lines = [self._ready_jobs(name) for name in (*queues[first:], *queues[:first])]
            taken = [row for turn in zip_longest(*lines) for row in turn if row is not None]
            for row in taken[: max(0, limit - len(held))]:
                changes = {"lease_owner": worker_id, "lease_expires_at": later(now, duration)}
                self._move(row, JobState.LEASED, now, attempts=row.job.attempts + 1, **changes)
                row.token = token
                held.append(row)
            return [Lease(job=row.job, token=token, expires_at=_expiry(row)) for row in held]

    def _renew(self, leases: Sequence[Lease], duration: float) -> Sequence[Lease]:
        def extend(row: Row, _: Lease, now: datetime) -> None:
            row.job = replace(row.job, lease_expires_at=later(now, duration))

        return self._settle_each(leases, extend)

    def _complete(self, completions: Sequence[Completion]) -> Sequence[Lease]:
        def succeed(row: Row, completion: Completion, now: datetime) -> None:
            self._move(row, JobState.SUCCEEDED, now, result=completion.result)

        return self._settle_each(completions, succeed)

    def _retry(self, failures: Sequence[Failure]) -> Sequence[Lease]:
        def put_back(row: Row, failure: Failure, now: datetime) -> None:
            due_at = later(now, failure.delay)
            self._fail(row, failure, JobState.RETRY_WAIT, now, due_at=due_at)

        return self._settle_each(failures, put_back)

    def _bury(self, failures: Sequence[Failure]) -> Sequence[Lease]:
        return self._settle_each(failures, lambda row, failure, now: self._fail(row, failure, JobState.DEAD, now))

    def _release(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        def give_back(row: Row, _: Lease, now: datetime) -> None:
            ready_at = row.ready_at
            self._move(row, JobState.READY, now, attempts=row.job.attempts - 1)
            row.ready_at = ready_at  # keeps its place in the queue

        return self._settle_each(leases, give_back)

    def _recover_expired(self, queues: Sequence[str], limit: int) -> Recovery:
        with self._open() as now:
            leased = sorted(self._in(queues, JobState.LEASED), key=_expiry)
            expired = [row for row in leased if _expiry(row) <= now][:limit]
            dead = 0
            for row in expired:
                used_up = row.job.attempts > row.job.max_retries
                dead += used_up
                self._record(row, LEASE_EXPIRED, now)
                self._move(row, JobState.DEAD if used_up else JobState.READY, now, crashes=row.job.crashes + 1)
            next_expiry = _seconds_to(leased[len(expired) :], _expiry, now)
            return Recovery(ready=len(expired) - dead, dead=dead, next_expiry=next_expiry)

    def _cancel(self, queue: str, ids: Sequence[str]) -> Sequence[MoveAnswer]:
        return self._move_each_id("cancel", queue, ids, JobState.CANCELLED, {})

    def _requeue(self, queue: str, ids: Sequence[str]) -> Sequence[MoveAnswer]:
        return self._move_each_id("requeue", queue, ids, JobState.READY, {"attempts": 0, "crashes": 0})

    def _get(self, queue: str, ids: Sequence[str]) -> Mapping[str, Job]:
        with self._open():
            return {id: self._rows[queue, id].job for id in ids if (queue, id) in self._rows}

    def _list(self, queue: str, state: JobState, place: str | None, limit: int) -> tuple[Sequence[Job], str | None]:
        with self._open():
            jobs = sorted((row.job for row in self._in((queue,), state)), key=lambda job: job.id)
        rest = [job for job in jobs if place is None or job.id > place]
        return rest[:limit], rest[limit - 1].id if len(rest) > limit else None

    def _stats(self, queues: Sequence[str] | None) -> Sequence[QueueStats]:
        with self._open() as now:
            return [self._numbers(name, now) for name in sorted(self._queues if queues is None else queues)]

    def _pause(self, queue: str) -> None:
        with self._open():
            self._paused.add(queue)
            self._queues.add(queue)

    def _resume(self, queue: str) -> None:
        with self._open():
            self._paused.discard(queue)

    def _purge(self, queue: str, state: JobState, limit: int) -> int:
        with self._open():
            return self._delete([*self._in((queue,), state)][:limit])

    def _trim(self, queues: Sequence[str], limit: int) -> int:
        with self._open() as now:
            finished = [(row, row.job.finished_at) for row in self._in(queues, *TERMINAL)]
            kept = {state: timedelta(seconds=self.retention.seconds(state)) for state in TERMINAL}
            return self._delete([row for row, at in finished if at and at + kept[row.job.state] <= now][:limit])

    def ping(self) -> None:
        with self._open():
            pass

    def close(self) -> None:
        with self._lock.entry():
            self._closed = True

    @contextmanager
    def _open(self) -> Iterator[datetime]:
        """Allow one call at a time, as a transaction would. Yields the store's current time."""
        with self._lock.entry():
            if self._closed:
                raise BackendClosed("the backend was closed")
            yield now_of(self.clock)

    def _store(self, new: NewJob, now: datetime) -> Enqueued:
        row = self._rows.get((new.queue, new.id))
        if row is not None:
            return Enqueued(job=row.job, is_new=row.nonce == new.nonce)
        run_at = new.run_at_from(now)
        job = Job(
            **{name: getattr(new, name) for name in AS_ASKED},
            metadata=MappingProxyType(dict(new.metadata)),  # read-only, since all readers of the job share it
            state=JobState.SCHEDULED if run_at > now else JobState.READY,
            run_at=run_at,
            due_at=run_at if run_at > now else None,
            created_at=now,
        )
        self._rows[new.queue, new.id] = Row(job=job, nonce=new.nonce, ready_at=now)
        self._queues.add(new.queue)
        return Enqueued(job=job, is_new=True)

    def _in(self, queues: Sequence[str], *states: JobState) -> Iterator[Row]:
        return (row for row in self._rows.values() if row.job.queue in queues and row.job.state in states)

    def _ready_jobs(self, queue: str) -> Sequence[Row]:
        """Return the ready jobs of a queue in order, none while the queue is paused."""
        ready = () if queue in self._paused else self._in((queue,), JobState.READY)
        return sorted(ready, key=lambda row: (row.job.priority, row.ready_at))

    def _move(self, row: Row, state: JobState, now: datetime, **changes: object) -> None:
        """Change the state of a job: clear the fields of the old state, set *changes*. No other method changes it."""
        blank = {"due_at": None, "lease_owner": None, "lease_expires_at": None}
        finished_at = now if state in TERMINAL else None
        row.job = replace(row.job, state=state, finished_at=finished_at, **{**blank, **changes})  # type: ignore[arg-type]  # fields by name
        row.token = None
        if state is JobState.READY:
            row.ready_at = now
        if state in TERMINAL and not self.retention.seconds(state):
            self._delete([row])

    def _settle_each(self, items: Sequence[Item], move: Callable[[Row, Item, datetime], None]) -> Sequence[Lease]:
        """Call *move* for each item whose token holds the job. Return the refused leases."""
        refused = []
        with self._open() as now:
            for item in items:
                lease = item if isinstance(item, Lease) else item.lease
                row = self._rows.get((lease.job.queue, lease.job.id))
                if row is not None and row.token == lease.token:
                    move(row, item, now)
                else:
                    refused.append(lease)
        return refused

    def _fail(self, row: Row, failure: Failure, state: JobState, now: datetime, **changes: object) -> None:
        if failure.error is not None:
            self._record(row, failure.error, now)
        attempts = row.job.attempts if failure.counted else row.job.attempts - 1
        self._move(row, state, now, attempts=attempts, **changes)

    def _record(self, row: Row, detail: ErrorDetail, now: datetime) -> None:
        record = ErrorRecord.of(detail, attempt=row.job.attempts, at=now)
        row.job = replace(row.job, errors=(*row.job.errors, record)[-MAX_ERRORS:])

    def _move_each_id(
        self, move: str, queue: str, ids: Sequence[str], target: JobState, changes: Mapping[str, object]
    ) -> Sequence[MoveAnswer]:
        results: list[MoveAnswer] = []
        with self._open() as now:
            for id in ids:
                row = self._rows.get((queue, id))
                state = None if row is None else row.job.state
                moved = row is not None and state in MOVES[move].sources
                if row is not None and moved:
                    self._move(row, target, now, **changes)
                results.append(MoveAnswer(id=id, moved=moved, state=target if moved else state))
        return results

    def _delete(self, rows: Sequence[Row]) -> int:
        for row in rows:
            del self._rows[row.job.queue, row.job.id]
        return len(rows)

    def _numbers(self, queue: str, now: datetime) -> QueueStats:
        ready = [row.ready_at for row in self._in((queue,), JobState.READY)]
        return QueueStats(
            queue=queue,
            version=1,
            partitions=1,
            paused=queue in self._paused,
            counts={state: sum(1 for _ in self._in((queue,), state)) for state in JobState},
            oldest_ready_age=max(0.0, (now - min(ready)).total_seconds()) if ready else None,
        )


def _due(row: Row) -> datetime:
    assert row.job.due_at is not None  # noqa: S101 - scheduled and retry_wait have one
    return row.job.due_at


def _expiry(row: Row) -> datetime:
    assert row.job.lease_expires_at is not None  # noqa: S101 - leased has one
    return row.job.lease_expires_at


def _seconds_to(rows: Sequence[Row], moment: Callable[[Row], datetime], now: datetime) -> float | None:
    return max(0.0, (moment(rows[0]) - now).total_seconds()) if rows else None
