"""Promote, recover and trim: the maintenance that workers run periodically."""

from __future__ import annotations

import json
from collections.abc import Sequence

from scheduler.jobs import LEASE_EXPIRED
from scheduler.leases import Promotion, Recovery
from scheduler.states import TERMINAL, JobState
from scheduler_backends.sql.fields import error_document
from scheduler_backends.sql.moments import later
from scheduler_backends.sql.slices import SLICE, slices
from scheduler_backends.sql.states import CODES, SCHEDULED
from scheduler_backends.sql.unreadable import STRAY_ERROR
from scheduler_backends.sqlite.store import Store, accept_any_text

_EXPIRED = error_document(LEASE_EXPIRED)


class MaintenanceHooks:
    """Hooks for due jobs, expired leases, and finished jobs whose retention has ended."""

    _store: Store

    def _promote_due(self, queues: Sequence[str], limit: int) -> Promotion:  # noqa: ARG002 - nothing is moved
        # A job that is due is ready: see `sql.states`.
        with self._store.file.reading() as connection:
            now = self._store.now()
            parameters = {"queues": json.dumps(queues), "now": now}
            (due,) = connection.execute(self._store.statements.next_due, parameters).fetchone()
        return Promotion(moved=0, next_due=None if due is None else (due - now) / 1_000_000)

    def _recover_expired(self, queues: Sequence[str], limit: int) -> Recovery:
        ready = dead = 0
        next_expiry = self._next_expiry(queues)
        if next_expiry == 0.0:
            for part in slices(range(limit)):
                revived, buried = self._recover(queues, len(part))
                ready, dead = ready + revived, dead + buried
                if revived + buried < len(part):
                    break
            next_expiry = self._next_expiry(queues)
        self._bury_stray(queues, min(limit, SLICE))
        return Recovery(ready=ready, dead=dead, next_expiry=next_expiry)

    def _trim(self, queues: Sequence[str], limit: int) -> int:
        statements = self._store.statements
        deleted = 0
        for queue in queues:
            for state in sorted(TERMINAL):
                for part in slices(range(limit - deleted)):
                    before = later(self._store.now(), -self._store.retention.seconds(state))
                    parameters = (queue, CODES[state], before)
                    with self._store.file.reading() as connection:  # usually there is nothing to delete
                        (any_left,) = connection.execute(statements.any_outdated, parameters).fetchone()
                    if not any_left:
                        break
                    with self._store.file.writing() as connection:
                        deleted += connection.execute(statements.trim, (*parameters, len(part))).rowcount
        return deleted

    def _next_expiry(self, queues: Sequence[str]) -> float | None:
        with self._store.file.reading() as connection:
            parameters = {"queues": json.dumps(queues)}
            (until,) = connection.execute(self._store.statements.next_expiry, parameters).fetchone()
        return None if until is None else max(0.0, (until - self._store.now()) / 1_000_000)

    def _recover(self, queues: Sequence[str], limit: int) -> tuple[int, int]:
        statements = self._store.statements
        buries = self._store.retention.seconds(JobState.DEAD) > 0.0
        parameters: dict[str, object] = {"queues": json.dumps(queues), "limit": limit, "error": _EXPIRED}
        with self._store.file.writing() as connection:
            parameters["now"] = self._store.now()
            deleted = 0 if buries else connection.execute(statements.delete_used_up, parameters).rowcount
            parameters["limit"] = limit - deleted
            moved = connection.execute(statements.recover, parameters).fetchall()
        revived = [queue for queue, state in moved if state == SCHEDULED]
        self._store.waiters.notify(set(revived))
        return len(revived), len(moved) - len(revived) + deleted

    @accept_any_text  # their ids may be any text
    def _bury_stray(self, queues: Sequence[str], limit: int) -> None:
        parameters: dict[str, object] = {"queues": json.dumps(queues)}
        with self._store.file.reading() as connection:
            (any_stray,) = connection.execute(self._store.statements.any_stray, parameters).fetchone()
        if not any_stray:
            return
        parameters |= {"limit": limit, "error": STRAY_ERROR}
        with self._store.file.writing() as connection:
            parameters["now"] = self._store.now()
            buried = connection.execute(self._store.statements.bury_stray, parameters).fetchall()
        for queue, id in buried[:1]:
            self._store.unreadable.log(len(buried), f"{id!r} in {queue!r}: its state, priority or due time is invalid")
