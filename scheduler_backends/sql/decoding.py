"""Conversion of rows to jobs, including damaged rows."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Final

from scheduler.jobs import Job, NewJob
from scheduler.leases import Lease
from scheduler.limits import MAX_COUNT, MAX_DELAY, MAX_NAME
from scheduler.states import TERMINAL, JobState
from scheduler.values import maker_of
from scheduler_backends.sql.checks import MAX_COUNTER
from scheduler_backends.sql.columns import OPTIONS, JobRow
from scheduler_backends.sql.fields import PRIORITIES, SHORTEST_TIMEOUT, refuse
from scheduler_backends.sql.moments import from_micros
from scheduler_backends.sql.salvage import salvaged
from scheduler_backends.sql.states import LEASED, RETRY_WAIT, SCHEDULED, STATES

# The fields in the order in which `_sound` passes them. Built without checks: a statement may return a thousand rows.
_job = maker_of(
    Job,
    "id", "queue", "type", "payload", "state", "priority", "run_at", "created_at", "max_retries", "timeout", "due_at",
    "attempts", "crashes", "finished_at", "lease_owner", "lease_expires_at",
)  # fmt: skip
_lease = maker_of(Lease, "job", "token", "expires_at")
_options = attrgetter(*OPTIONS)
_NO_OPTIONS: Final = (None,) * len(OPTIONS)
_FINISHED: Final = frozenset(code for code, state in STATES.items() if state in TERMINAL)


def job_of(row: JobRow, now: int) -> Job:
    """Return the job in *row* as it is at *now*."""
    try:
        return _sound(row, now)
    except Exception:  # noqa: BLE001 - another program may have written anything; `salvaged` finds out which fields
        return salvaged(row, now)


def is_repeat(row: JobRow, job: NewJob) -> bool:
    """Return whether *row* was stored or replaced by *job* itself. A row has the nonces of the last four that did."""
    return type(row.nonce) is str and job.nonce in row.nonce


def leases_of(rows: Iterable[tuple[int, JobRow]], token: str) -> tuple[list[Lease], list[Job]]:
    """Return the leases on the jobs in *rows*, which are pairs of moment and row, and the jobs that cannot be read."""
    leases, unreadable = [], []
    for now, row in rows:
        job = job_of(row, now)
        if job.unreadable:
            unreadable.append(job)
        else:
            leases.append(_lease(job, token, job.lease_expires_at))
    return leases, unreadable


def _sound(row: JobRow, now: int) -> Job:
    """Return the job in *row*. Raises an exception of any type if a field may be invalid."""
    id, type_, payload, code, priority, due_at = row.id, row.type, row.payload, row.state, row.priority, row.due_at
    leased = code == LEASED
    # Comparing text with a number raises TypeError. Printable text of the right length is a valid name.
    if not (
        id.isprintable()
        and type_.isprintable()
        and 0 < len(id) <= MAX_NAME >= len(type_) > 0
        and type(payload) is bytes
        and 0 <= priority < len(PRIORITIES)
        and leased <= row.attempts <= MAX_COUNTER >= row.crashes >= 0
        and 0 <= row.max_retries <= MAX_COUNT
        and SHORTEST_TIMEOUT <= row.timeout <= MAX_DELAY
        and (type(row.lease_owner) is str or not leased)
    ):
        refuse("may be invalid")
    lies_ahead, may_run = due_at > now, code in (SCHEDULED, RETRY_WAIT)
    waits = may_run and lies_ahead
    state = JobState.READY if may_run and not lies_ahead else STATES[code]  # like `derived`
    job = _job(
        id, row.queue, type_, payload, state, PRIORITIES[priority],
        from_micros(row.run_at), from_micros(row.created_at), row.max_retries, row.timeout,
        from_micros(due_at) if waits else None, row.attempts, row.crashes,
        from_micros(row.finished_at) if code in _FINISHED else None,
        row.lease_owner if leased else None, from_micros(row.lease_until) if leased else None,
    )  # fmt: skip
    options = _options(row)
    if options != _NO_OPTIONS:
        for (name, decode), value in zip(OPTIONS.items(), options, strict=True):
            if value is not None:
                object.__setattr__(job, name, decode(value))
    return job
