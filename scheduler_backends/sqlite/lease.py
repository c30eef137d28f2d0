"""Lease and renew."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from operator import attrgetter

from scheduler.jobs import Job
from scheduler.leases import Lease
from scheduler_backends.sql.columns import JobRow
from scheduler_backends.sql.decoding import leases_of
from scheduler_backends.sql.moments import later
from scheduler_backends.sql.slices import SLICE
from scheduler_backends.sqlite.store import Store, accept_any_text


class LeaseHooks:
    """Hooks that lease ready jobs and extend leases."""

    _store: Store

    @accept_any_text
    def _lease(
        self, queues: Sequence[str], *, token: str, worker_id: str, duration: float, limit: int
    ) -> Sequence[Lease]:
        """Lease up to *limit* jobs, at most 1,000."""
        parameters: dict[str, object] = {"queues": json.dumps(queues), "now": self._store.now(), "token": token}
        with self._store.file.reading() as connection:
            (anything,) = connection.execute(self._store.statements.any_work, parameters).fetchone()
        while anything:  # so an idle worker takes no write lock
            leases, unreadable = leases_of(
                self._take(parameters, queues, worker_id, duration, min(limit, SLICE)), token
            )
            if not unreadable:
                return leases
            buried = self._bury_unreadable(unreadable, token)
            if leases or not buried:  # else repeat: an empty result would mean that no job is ready
                return leases
        return []

    def _renew(self, leases: Sequence[Lease], duration: float) -> Sequence[Lease]:
        until = later(self._store.now(), duration)
        rows = [(until, lease.job.queue, lease.job.id, lease.token) for lease in leases]
        return self._store.change_held(self._store.statements.renew, leases, rows)

    def _take(
        self, parameters: dict[str, object], queues: Sequence[str], worker_id: str, duration: float, limit: int
    ) -> list[tuple[int, JobRow]]:
        statements = self._store.statements
        with self._store.file.writing() as connection:
            parameters["now"] = now = self._store.now()
            rows = [JobRow._make(row) for row in connection.execute(statements.held, parameters)]
            cells: dict[str, list[int]] = {}
            for queue, priority in sorted(connection.execute(statements.cells, parameters)):
                cells.setdefault(queue, []).append(priority)
            first = next(self._store.turns) % len(queues)
            turns = [queue for queue in (*queues[first:], *queues[:first]) if queue in cells]
            lessee = (parameters["token"], worker_id, later(now, duration))
            # Each queue gets its share first. What some queues leave goes to the others, in the same order.
            for share in (-(-(limit - len(rows)) // len(turns)), limit) if turns else ():
                for queue in turns:
                    left = min(share, limit - len(rows))
                    for priority in cells[queue]:
                        if left > 0:
                            taken = self._claim(connection, (*lessee, queue, priority, now, left))
                            rows += taken
                            left -= len(taken)
        return [(now, row) for row in rows]

    def _claim(self, connection: sqlite3.Connection, parameters: tuple[object, ...]) -> list[JobRow]:
        rows = [JobRow._make(row) for row in connection.execute(self._store.statements.claim, parameters)]
        rows.sort(key=attrgetter("due_at", "id"))  # RETURNING has no order
        return rows

    def _bury_unreadable(self, jobs: Sequence[Job], token: str) -> int:
        with self._store.file.writing() as connection:
            now = self._store.now()
            rows = [(now, job.queue, job.id.encode("utf-8", "surrogateescape"), token) for job in jobs]
            buried = connection.executemany(self._store.statements.bury_unreadable, rows).rowcount
        self._store.unreadable.log_jobs(jobs)
        return buried
