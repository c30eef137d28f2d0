"""How a row becomes a job, whatever stands in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from scheduler.jobs import Job
from scheduler.leases import Lease
from scheduler.limits import MAX_COUNT, MAX_DELAY, MAX_NAME
from scheduler.states import TERMINAL
from scheduler.values import maker_of
from scheduler_backends.sql.checks import MOST
from scheduler_backends.sql.fields import PRIORITIES, SHORTEST_TIMEOUT, errors_of, metadata_of, policy_of, refuse
from scheduler_backends.sql.rows import JobRow, from_micros
from scheduler_backends.sql.salvage import salvaged
from scheduler_backends.sql.states import LEASED, RETRY_WAIT, SCHEDULED, STATES, derived

# The fields of `_sound`, in its order. Nothing is checked: a statement may return a thousand rows.
_job = maker_of(
    Job,
    "id", "queue", "type", "payload", "state", "priority", "run_at", "created_at", "max_retries", "timeout", "due_at",
    "attempts", "crashes", "retry_policy", "idempotency_key", "metadata", "finished_at", "errors", "lease_owner",
    "lease_expires_at", "result",
)  # fmt: skip
_lease = maker_of(Lease, "job", "token", "expires_at")
_FINISHED: Final = frozenset(code for code, state in STATES.items() if state in TERMINAL)


def job_of(row: JobRow, now: int) -> Job:
    """The job in *row*, as it stands at *now*."""
    try:
        return _sound(row, now)
    except Exception:  # noqa: BLE001 - another program may have written anything; what it is, is found out field by field
        return salvaged(row, now)


def leases_of(rows: Iterable[tuple[int, JobRow]], token: str) -> tuple[list[Lease], list[Job]]:
    """The leases on the jobs in *rows*, each behind the moment when it was taken, and the jobs that are unreadable."""
    leases, unreadable = [], []
    for now, row in rows:
        job = job_of(row, now)
        if job.unreadable:
            unreadable.append(job)
        else:
            leases.append(_lease(job, token, job.lease_expires_at))
    return leases, unreadable


def _sound(row: JobRow, now: int) -> Job:
    """The job in *row*; raises whatever it may for one in which anything is not as it should be, or only looks so."""
    (
        queue, id, type_, payload, code, priority, attempts, crashes, max_retries, timeout, run_at, due_at, created_at,
        finished_at, owner, until, policy, key, metadata, errors, result, _,
    ) = row  # fmt: skip
    leased = code == LEASED
    # A comparison with text raises, and what is printable is a name but for its length.
    if not (
        id.isprintable()
        and type_.isprintable()
        and 0 < len(id) <= MAX_NAME >= len(type_) > 0
        and type(payload) is bytes
        and 0 <= priority < len(PRIORITIES)
        and leased <= attempts <= MOST >= crashes >= 0
        and 0 <= max_retries <= MAX_COUNT
        and SHORTEST_TIMEOUT <= timeout <= MAX_DELAY
        and (key is None or key.isprintable())
        and (result is None or type(result) is bytes)
        and (type(owner) is str or not leased)
    ):
        refuse("is looked at more closely")
    waits = due_at > now and code in (SCHEDULED, RETRY_WAIT)
    return _job(
        id, queue, type_, payload, derived(code, is_due=not waits), PRIORITIES[priority],
        from_micros(run_at), from_micros(created_at), max_retries, timeout,
        from_micros(due_at) if waits else None, attempts, crashes,
        None if policy is None else policy_of(policy), key, {} if metadata is None else metadata_of(metadata),
        from_micros(finished_at) if code in _FINISHED else None, () if errors is None else errors_of(errors),
        owner if leased else None, from_micros(until) if leased else None, result,
    )  # fmt: skip
