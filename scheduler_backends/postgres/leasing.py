"""lease, renew, promote_due and recover_expired: who holds which job until when."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from itertools import count
from typing import Final

from scheduler.errors import ConfigError
from scheduler.jobs import LEASE_EXPIRED, Job
from scheduler.leases import Lease, Promotion, Recovery, Renewal
from scheduler.limits import check_duration, check_limit, check_name, check_queues, check_token
from scheduler.states import JobState
from scheduler_backends.postgres.settling import settle
from scheduler_backends.postgres.store import Store
from scheduler_backends.sql.arguments import SLICE
from scheduler_backends.sql.decoding import leases_of
from scheduler_backends.sql.rows import JobRow, error_document, later
from scheduler_backends.sql.unreadable import STRAYED, Finds

_EXPIRED: Final = error_document(LEASE_EXPIRED)

_log = logging.getLogger("scheduler.postgres")


class Leasing:
    """Ready → leased, and back when the holder is gone."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._statements = store.statements.leasing
        self._finds = Finds(_log)
        self._turn = count()  # which queue comes first; next() on it is atomic

    def promote_due(self, queues: Sequence[str], limit: int) -> Promotion:
        """Moves nothing: what is due is ready. See `Backend.promote_due`."""
        names = check_queues(queues)
        check_limit(limit)
        ((due,),) = self._store.run(self._statements.next_due, queues=list(names))
        return Promotion(moved=0, next_due=None if due is None else due / 1_000_000)

    def lease(
        self, queues: Sequence[str], *, token: str, worker_id: str, duration: float, limit: int
    ) -> Sequence[Lease]:
        """See `Backend.lease`. At most 1,000 jobs a call."""
        names = check_queues(queues)
        check_token(token)
        check_name("worker_id", worker_id, ConfigError)
        lasts = later(0, check_duration(duration))
        limit = min(check_limit(limit), SLICE)
        first = next(self._turn) % len(names)
        turns = list(names[first:] + names[:first])

        while True:
            rows = self._take(turns, token=token, worker_id=worker_id, duration=lasts, limit=limit)
            leases, unreadable = leases_of(rows, token)
            if not unreadable:
                return leases
            buried = self._bury(unreadable, token)
            if leases or not buried:  # an empty answer would mean that nothing else is leasable
                return leases

    def _take(self, turns: list[str], *, limit: int, **parameters: object) -> list[tuple[int, JobRow]]:
        def lease(share: int) -> list[tuple[int, JobRow]]:
            rows = self._store.run(
                self._statements.lease(1 << (share - 1).bit_length()),
                queues=turns,
                limit=limit,
                share=share,
                **parameters,
            )
            return [(now, JobRow._make(row)) for now, *row in rows]

        share = -(-limit // len(turns))
        rows = lease(share)
        of_queue = Counter(row.queue for _, row in rows)
        if len(rows) < limit and any(number >= share for number in of_queue.values()):
            # What some queues left of their share goes to the others. The token's first rows are answered as well.
            rows = lease(limit)
        # RETURNING has no order.
        place = {queue: number for number, queue in enumerate(turns)}
        rows.sort(key=lambda found: (place[found[1].queue], found[1].priority, found[1].due_at, found[1].id))
        return rows

    def _bury(self, unreadable: Sequence[Job], token: str) -> int:
        buried = self._store.run(
            self._store.statements.burying.unreadable,
            queues=[job.queue for job in unreadable],
            ids=[job.id for job in unreadable],
            token=token,
        )
        self._finds.tell_of(unreadable)
        return len(buried)

    def renew(self, leases: Sequence[Lease], duration: float) -> Renewal:
        """See `Backend.renew`."""
        lasts = later(0, check_duration(duration))
        # An UPDATE meets a row once, however often it is named.
        named = list(dict.fromkeys(leases))
        refused = settle(self._store, self._store.statements.settling.renew, named, duration=lasts)
        return Renewal(refused=[lease for lease in leases if lease in refused] if refused else ())

    def recover_expired(self, queues: Sequence[str], limit: int) -> Recovery:
        """See `Backend.recover_expired`."""
        names = list(check_queues(queues))
        left = check_limit(limit)
        keeps = self._store.retention.seconds(JobState.DEAD) > 0.0
        statement = self._statements.recover if keeps else self._statements.recover_deleting
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
        """Seconds until the next lease expires, 0.0 = one has, None = there is none."""
        ((micros,),) = self._store.run(self._statements.next_expiry, queues=names)
        return None if micros is None else max(0.0, float(micros) / 1_000_000)

    def _bury_stray(self, names: list[str], size: int) -> None:
        buried = self._store.run(self._store.statements.burying.stray, queues=names, limit=size, error=STRAYED)
        for queue, id in buried[:1]:
            self._finds.tell(len(buried), f"{id!r} in {queue!r}: its state, priority or due time is none")
