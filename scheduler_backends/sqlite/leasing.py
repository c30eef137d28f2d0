"""lease, renew, promote_due and recover_expired: who holds which job until when."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Sequence
from itertools import count
from operator import attrgetter

from scheduler.errors import ConfigError
from scheduler.jobs import LEASE_EXPIRED, Job
from scheduler.leases import Lease, Promotion, Recovery, Renewal
from scheduler.limits import check_duration, check_limit, check_name, check_queues, check_token
from scheduler.states import JobState
from scheduler_backends.sql.arguments import SLICE, slices
from scheduler_backends.sql.decoding import leases_of
from scheduler_backends.sql.rows import JobRow, error_document, later
from scheduler_backends.sql.states import DEAD, SCHEDULED
from scheduler_backends.sql.unreadable import STRAYED, Finds
from scheduler_backends.sqlite.settling import settle
from scheduler_backends.sqlite.store import Store, whatever_its_text

_EXPIRED = error_document(LEASE_EXPIRED)

_log = logging.getLogger("scheduler.sqlite")


class Leasing:
    """Ready → leased, and back when the holder is gone."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._finds = Finds(_log)
        self._turn = count()  # which queue comes first; next() on it is atomic

    def promote_due(self, queues: Sequence[str], limit: int) -> Promotion:
        """Moves nothing: what is due is ready. See `Backend.promote_due`."""
        names = check_queues(queues)
        check_limit(limit)
        with self._store.file.reading() as connection:
            now = self._store.now()
            asked = {"queues": json.dumps(names), "now": now}
            (due,) = connection.execute(self._store.statements.next_due, asked).fetchone()
        return Promotion(moved=0, next_due=None if due is None else (due - now) / 1_000_000)

    @whatever_its_text
    def lease(
        self, queues: Sequence[str], *, token: str, worker_id: str, duration: float, limit: int
    ) -> Sequence[Lease]:
        """See `Backend.lease`. At most 1,000 jobs a call."""
        names = check_queues(queues)
        check_token(token)
        check_name("worker_id", worker_id, ConfigError)
        check_duration(duration)
        limit = min(check_limit(limit), SLICE)
        with self._store.file.reading() as connection:
            asked = {"queues": json.dumps(names), "now": self._store.now(), "token": token}
            (anything,) = connection.execute(self._store.statements.probe, asked).fetchone()
        while anything:  # so an idle worker takes no write lock
            leases, unreadable = leases_of(self._take(asked, names, worker_id, duration, limit), token)
            if not unreadable:
                return leases
            buried = self._bury(unreadable, token)
            if leases or not buried:  # an empty answer would mean that nothing else is leasable
                return leases
        return []

    def _take(
        self, asked: dict[str, object], names: tuple[str, ...], worker_id: str, duration: float, limit: int
    ) -> list[tuple[int, JobRow]]:
        statements = self._store.statements
        with self._store.file.writing() as connection:
            asked["now"] = now = self._store.now()
            rows = [JobRow._make(row) for row in connection.execute(statements.held, asked)]
            cells: dict[str, list[int]] = {}
            for queue, priority in sorted(connection.execute(statements.cells, asked)):
                cells.setdefault(queue, []).append(priority)
            first = next(self._turn) % len(names)
            turns = [queue for queue in names[first:] + names[:first] if queue in cells]
            lessee = (asked["token"], worker_id, later(now, duration))
            # Each queue gets its share first; what some leave goes to the others in the same order.
            for share in (-(-(limit - len(rows)) // len(turns)), limit) if turns else ():
                for queue in turns:
                    left = min(share, limit - len(rows))
                    for priority in cells[queue]:
                        if left > 0:
                            taken = self._claim(connection, (*lessee, queue, priority, now, left))
                            rows += taken
                            left -= len(taken)
        return [(now, row) for row in rows]

    def _bury(self, unreadable: Sequence[Job], token: str) -> int:
        with self._store.file.writing() as connection:
            now = self._store.now()
            buried = connection.executemany(
                self._store.statements.bury_unreadable,
                [(now, job.queue, job.id.encode("utf-8", "surrogateescape"), token) for job in unreadable],
            ).rowcount
        self._finds.tell_of(unreadable)
        return buried

    def renew(self, leases: Sequence[Lease], duration: float) -> Renewal:
        """See `Backend.renew`."""
        check_duration(duration)
        until = later(self._store.now(), duration)
        refused = settle(
            self._store,
            self._store.statements.renew,
            leases,
            [(until, lease.job.queue, lease.job.id, lease.token) for lease in leases],
        )
        return Renewal(refused=refused)

    def recover_expired(self, queues: Sequence[str], limit: int) -> Recovery:
        """See `Backend.recover_expired`."""
        names = check_queues(queues)
        check_limit(limit)
        recovery = self._recover_all(names, limit)
        self._bury_stray(names, min(limit, SLICE))
        return recovery

    def _recover_all(self, names: Sequence[str], limit: int) -> Recovery:
        with self._store.file.reading() as connection:
            next_expiry = self._next_expiry(connection, names)
        if next_expiry is None or next_expiry > 0.0:
            return Recovery(ready=0, dead=0, next_expiry=next_expiry)
        ready = dead = 0
        for part in slices(range(limit)):
            revived, buried, queues_rung = self._recover(names, len(part))
            ready, dead = ready + revived, dead + buried
            self._store.waiters.notify(queues_rung)
            if revived + buried < len(part):
                break
        with self._store.file.reading() as connection:
            return Recovery(ready=ready, dead=dead, next_expiry=self._next_expiry(connection, names))

    def _bury_stray(self, names: Sequence[str], limit: int) -> None:
        asked: dict[str, object] = {"queues": json.dumps(names)}
        with self._store.file.reading() as connection:
            (any_stray,) = connection.execute(self._store.statements.any_stray, asked).fetchone()
        if not any_stray:
            return
        asked |= {"limit": limit, "error": STRAYED}
        with self._store.file.writing() as connection:
            asked["now"] = self._store.now()
            buried = connection.execute(self._store.statements.bury_stray, asked).fetchall()
        for queue, id in buried[:1]:
            self._finds.tell(len(buried), f"{id!r} in {queue!r}: its state, priority or due time is none")

    def _claim(self, connection: sqlite3.Connection, parameters: tuple[object, ...]) -> list[JobRow]:
        rows = [JobRow._make(row) for row in connection.execute(self._store.statements.claim, parameters)]
        rows.sort(key=attrgetter("due_at", "id"))  # RETURNING has no order
        return rows

    def _next_expiry(self, connection: sqlite3.Connection, names: Sequence[str]) -> float | None:
        (until,) = connection.execute(self._store.statements.next_expiry, {"queues": json.dumps(names)}).fetchone()
        return None if until is None else max(0.0, (until - self._store.now()) / 1_000_000)

    def _recover(self, names: Sequence[str], limit: int) -> tuple[int, int, set[str]]:
        statements = self._store.statements
        buries = self._store.retention.seconds(JobState.DEAD) > 0.0
        ready, dead, woken = 0, 0, set()
        with self._store.file.writing() as connection:
            now = self._store.now()
            for queue in names:
                expired = connection.execute(statements.expired, (queue, now, limit - ready - dead)).fetchall()
                for rowid, is_used_up in expired:
                    revived = {"error": _EXPIRED, "now": now, "rowid": rowid}
                    if not is_used_up:
                        connection.execute(statements.revive, {**revived, "state": SCHEDULED, "finished_at": None})
                        woken.add(queue)
                        ready += 1
                        continue
                    dead += 1
                    if buries:
                        connection.execute(statements.revive, {**revived, "state": DEAD, "finished_at": now})
                    else:
                        connection.execute(statements.delete_row, {"rowid": rowid})
        return ready, dead, woken
