"""
What can be read of a row in which not all can be read.

The job has a neutral value for the rest, and their names in `Job.unreadable`. The row itself stays as it is: the error
that says why is made anew each time, so that a newer release, or a repaired row, is read as if nothing had been.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from scheduler.errors import ConfigError, InvalidJob
from scheduler.jobs import UNREADABLE, ErrorDetail, ErrorRecord, Job
from scheduler.limits import MAX_ERRORS
from scheduler.states import TERMINAL, JobState
from scheduler_backends.sql.columns import COLUMNS, JobRow
from scheduler_backends.sql.fields import (
    RefusedError,
    attempts_of_leased,
    counter_of,
    moment_of,
    name_of,
    refuse,
    text_of,
)
from scheduler_backends.sql.moments import EPOCH
from scheduler_backends.sql.states import STATES, derived

_T = TypeVar("_T")
_N = TypeVar("_N")


def salvaged(row: JobRow, now: int) -> Job:
    """Return the job in *row*, read field by field."""
    return _Salvage(row, now).job()


class _Salvage:
    """Collects what could not be read, and why."""

    def __init__(self, row: JobRow, now: int) -> None:
        self._row = row
        self._now = now
        self._reasons: dict[str, str] = {}

    def job(self) -> Job:
        row, read = self._row, self._read
        state = read("state", self._state, row.state, JobState.DEAD)
        waits, leased = state in (JobState.SCHEDULED, JobState.RETRY_WAIT), state is JobState.LEASED
        created_at = read("created_at", moment_of, row.created_at, EPOCH)
        attempts = read("attempts", attempts_of_leased if leased else counter_of, row.attempts, int(leased))
        finished_at = created_at if state in TERMINAL else None
        if finished_at and "state" not in self._reasons:
            finished_at = read("finished_at", moment_of, row.finished_at, created_at)
        fields: dict[str, Any] = {
            "id": read("id", name_of, row.id, str(row.id)),
            "due_at": read("due_at", moment_of, row.due_at, created_at) if waits else None,
            "lease_owner": read("lease_owner", text_of, row.lease_owner, "") if leased else None,
            "lease_expires_at": read("lease_expires_at", moment_of, row.lease_until, created_at) if leased else None,
        }
        for name, column in COLUMNS.items():
            if column.decode is not None:
                neutral = column.decode(None) if column.null else column.neutral
                fields[name] = read(name, column.decode, getattr(row, name), neutral)
        if self._reasons:
            reasons = "; ".join(f"{field} {reason}" for field, reason in self._reasons.items())
            detail = ErrorDetail(kind=UNREADABLE, message=f"this record cannot be read: {reasons}")
            error = ErrorRecord.of(detail, attempt=attempts, at=finished_at or created_at)
            fields["errors"] = (*fields["errors"][-(MAX_ERRORS - 1) :], error)
        return Job(
            queue=row.queue,
            state=state,
            created_at=created_at,
            attempts=attempts,
            finished_at=finished_at,
            unreadable=tuple(self._reasons),
            **fields,
        )

    def _read(self, field: str, reader: Callable[[object], _T], value: object, neutral: _N) -> _T | _N:
        try:
            return reader(value)
        except (ConfigError, InvalidJob) as error:
            self._reasons[field] = error.message
        except RefusedError as error:
            self._reasons[field] = str(error)
        except Exception as error:  # noqa: BLE001 - as in `job_of`
            self._reasons[field] = f"raises {type(error).__name__}"
        return neutral

    def _state(self, code: object) -> JobState:
        if type(code) is not int or code not in STATES:
            refuse("is none that this release knows")
        due_at = self._row.due_at
        return derived(code, is_due=type(due_at) is int and due_at <= self._now)
