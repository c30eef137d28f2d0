"""
Decoding of damaged rows, field by field.

A field that cannot be read has a neutral value, and its name is in `Job.unreadable`. The error with the reasons is made
for each read and never stored, so that a newer release, or a read after the row was repaired, does not return it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from scheduler.errors import ConfigError, InvalidJob
from scheduler.jobs import UNREADABLE, ErrorDetail, ErrorRecord, Job
from scheduler.limits import MAX_ERRORS
from scheduler.states import TERMINAL, JobState
from scheduler_backends.sql import fields
from scheduler_backends.sql.columns import COLUMNS, JobRow
from scheduler_backends.sql.moments import EPOCH
from scheduler_backends.sql.states import STATES, derived

_T = TypeVar("_T")
_N = TypeVar("_N")


def salvaged(row: JobRow, now: int) -> Job:
    """Return the job in *row*, read field by field."""
    reasons: dict[str, str] = {}

    def read(field: str, reader: Callable[[Any], _T], value: object, neutral: _N) -> _T | _N:
        try:
            return reader(value)
        except (ConfigError, InvalidJob) as error:
            reasons[field] = error.message
        except fields.RefusedError as error:
            reasons[field] = str(error)
        except Exception as error:  # noqa: BLE001 - as in `job_of`
            reasons[field] = f"raises {type(error).__name__}"
        return neutral

    state = read("state", lambda code: _state(code, row.due_at, now), row.state, JobState.DEAD)
    waits, leased = state in (JobState.SCHEDULED, JobState.RETRY_WAIT), state is JobState.LEASED
    created_at = read("created_at", fields.moment_of, row.created_at, EPOCH)
    attempts = read("attempts", fields.attempts_of_leased if leased else fields.counter_of, row.attempts, int(leased))
    finished_at = created_at if state in TERMINAL else None
    if finished_at and "state" not in reasons:
        finished_at = read("finished_at", fields.moment_of, row.finished_at, created_at)
    values: dict[str, Any] = {
        "queue": row.queue,
        "id": read("id", fields.name_of, row.id, str(row.id)),
        "state": state,
        "created_at": created_at,
        "attempts": attempts,
        "finished_at": finished_at,
        "due_at": read("due_at", fields.moment_of, row.due_at, created_at) if waits else None,
        "lease_owner": read("lease_owner", fields.text_of, row.lease_owner, "") if leased else None,
        "lease_expires_at": read("lease_expires_at", fields.moment_of, row.lease_until, created_at) if leased else None,
    }
    for name, column in COLUMNS.items():
        value = getattr(row, name)
        if column.decode is not None and (value is not None or not column.null):
            found = read(name, column.decode, value, column.neutral)
            if found is not None:  # otherwise the field has its default
                values[name] = found
    if reasons:
        why = "; ".join(f"{field} {reason}" for field, reason in reasons.items())
        detail = ErrorDetail(kind=UNREADABLE, message=f"this record cannot be read: {why}")
        error = ErrorRecord.of(detail, attempt=attempts, at=finished_at or created_at)
        values["errors"] = (*values.get("errors", ())[-(MAX_ERRORS - 1) :], error)
    return Job(unreadable=tuple(reasons), **values)


def _state(code: object, due_at: object, now: int) -> JobState:
    if type(code) is not int or code not in STATES:
        fields.refuse("is no state of this release")
    return derived(code, is_due=type(due_at) is int and due_at <= now)
