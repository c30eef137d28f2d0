"""Lease and renew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from scheduler.jobs import Job
from scheduler.leases import Lease
from scheduler_backends.postgres.settle import settle
from scheduler_backends.postgres.store import Store
from scheduler_backends.sql.columns import JobRow
from scheduler_backends.sql.decoding import leases_of
from scheduler_backends.sql.moments import later
from scheduler_backends.sql.slices import SLICE


class LeaseHooks:
    """Hooks that lease ready jobs, at most 1,000 in a call, and extend leases."""

    _store: Store

    def _lease(
        self, queues: Sequence[str], *, token: str, worker_id: str, duration: float, limit: int
    ) -> Sequence[Lease]:
        first = next(self._store.turns) % len(queues)
        turns = [*queues[first:], *queues[:first]]
        limit = min(limit, SLICE)
        while True:
            rows = self._take(turns, token=token, worker_id=worker_id, duration=later(0, duration), limit=limit)
            leases, unreadable = leases_of(rows, token)
            if not unreadable:
                return leases
            buried = self._bury_unreadable(unreadable, token)
            if leases or not buried:  # else repeat: an empty result would mean that no job is ready
                return leases

    def _take(self, turns: list[str], *, limit: int, **parameters: object) -> list[tuple[int, JobRow]]:
        def lease(share: int) -> list[tuple[int, JobRow]]:
            statement = self._store.statements.lease.lease[1 << (share - 1).bit_length()]
            rows = self._store.run(statement, queues=turns, limit=limit, share=share, **parameters)
            return [(now, JobRow._make(row)) for now, *row in rows]

        share = -(-limit // len(turns))
        rows = lease(share)
        of_queue = Counter(row.queue for _, row in rows)
        if len(rows) < limit and any(number >= share for number in of_queue.values()):
            # What some queues left of their share goes to the others. This also returns the jobs leased just now.
            rows = lease(limit)
        # RETURNING has no order.
        place = {queue: number for number, queue in enumerate(turns)}
        rows.sort(key=lambda found: (place[found[1].queue], found[1].priority, found[1].due_at, found[1].id))
        return rows

    def _bury_unreadable(self, unreadable: Sequence[Job], token: str) -> int:
        buried = self._store.run(
            self._store.statements.lease.bury_unreadable,
            queues=[job.queue for job in unreadable],
            ids=[job.id for job in unreadable],
            token=token,
        )
        self._store.unreadable.log_jobs(unreadable)
        return len(buried)

    def _renew(self, leases: Sequence[Lease], duration: float) -> Sequence[Lease]:
        # An UPDATE changes and returns a row once, even if its lease is given twice.
        named = list(dict.fromkeys(leases))
        statement = self._store.statements.lease.renew
        refused = settle(self._store, statement, named, duration=later(0, duration))
        return [lease for lease in leases if lease in refused] if refused else ()
