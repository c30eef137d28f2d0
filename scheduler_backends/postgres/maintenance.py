"""Promote, recover and trim: the maintenance that workers run periodically."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scheduler.jobs import LEASE_EXPIRED
from scheduler.leases import Promotion, Recovery
from scheduler.states import TERMINAL, JobState
from scheduler_backends.postgres.store import Store
from scheduler_backends.sql.fields import error_document
from scheduler_backends.sql.moments import later
from scheduler_backends.sql.slices import SLICE
from scheduler_backends.sql.states import CODES
from scheduler_backends.sql.unreadable import STRAY_ERROR

_EXPIRED: Final = error_document(LEASE_EXPIRED)


class MaintenanceHooks:
    """Hooks for due jobs, expired leases, and finished jobs whose retention has ended."""

    _store: Store

    def _promote_due(self, queues: Sequence[str], limit: int) -> Promotion:
        """Move nothing, because a job that is due counts as ready: see `sql.states`."""
        del limit
        ((due,),) = self._store.run(self._store.statements.maintenance.next_due, queues=list(queues))
        return Promotion(moved=0, next_due=None if due is None else due / 1_000_000)

    def _recover_expired(self, queues: Sequence[str], limit: int) -> Recovery:
        names, left = list(queues), limit
        statements = self._store.statements.maintenance
        keeps = self._store.retention.seconds(JobState.DEAD) > 0.0
        statement = statements.recover if keeps else statements.recover_deleting
        ready = dead = 0
        next_expiry = self._next_expiry(names)
        while next_expiry == 0.0 and left:
            size = min(left, SLICE)
            ((revived, buried, woken),) = self._store.run(statement, queues=names, limit=size, error=_EXPIRED)
            self._store.notifier.notify(woken or ())
            ready, dead, left = ready + revived, dead + buried, left - size
            if revived + buried < size or not left:
                next_expiry = self._next_expiry(names)
                break
        self._bury_stray(names, size=min(limit, SLICE))
        return Recovery(ready=ready, dead=dead, next_expiry=next_expiry)

    def _next_expiry(self, names: list[str]) -> float | None:
        """Return the seconds until the next lease expires, 0.0 = one has expired, None = there is no lease."""
        ((micros,),) = self._store.run(self._store.statements.maintenance.next_expiry, queues=names)
        return None if micros is None else max(0.0, float(micros) / 1_000_000)

    def _bury_stray(self, names: list[str], size: int) -> None:
        statement = self._store.statements.maintenance.bury_stray
        buried = self._store.run(statement, queues=names, limit=size, error=STRAY_ERROR)
        for queue, id in buried[:1]:
            self._store.unreadable.log(len(buried), f"{id!r} in {queue!r}: its state, priority or due time is invalid")

    def _trim(self, queues: Sequence[str], limit: int) -> int:
        statements = self._store.statements.maintenance
        deleted = 0
        for state in sorted(TERMINAL):
            chosen = {"state": CODES[state], "kept": later(0, self._store.retention.seconds(state))}
            for (queue,) in self._store.run(statements.outlived, queues=list(queues), **chosen):
                more = 1
                while deleted < limit and more:
                    size = min(SLICE, limit - deleted)
                    ((more,),) = self._store.run(statements.trim, queue=queue, limit=size, **chosen)
                    deleted += more
        return deleted
