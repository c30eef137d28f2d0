"""lease, promote_due and recover_expired."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from sqlalchemy import BigInteger, Integer, Text, case, delete, func, literal_column, select, true, update
from sqlalchemy.sql.selectable import CTE

from scheduler_backends.postgres.statements.parts import (
    NOW,
    TOKEN,
    after,
    any_of,
    catalog,
    compiled,
    expiry_of,
    freed,
    given,
    is_waiting,
    literal,
    one_more,
    priorities,
    row_of,
    unnested,
    with_error,
)
from scheduler_backends.sql.states import DEAD, LEASED, SCHEDULED
from scheduler_backends.sql.tables import Tables


class LeasingStatements:
    """Who holds which job until when."""

    def __init__(self, tables: Tables) -> None:
        self._job = tables.job
        self._queue = tables.queue
        self._leases: dict[int, str] = {}

    def lease(self, most: int) -> str:
        """
        Leases up to `limit` jobs, at most `share` of each queue and at most *most*, and finds those already held.

        *most* is a power of two that stands in the text, so that there are few texts, and the planner knows that few
        rows are wanted.
        """
        if most not in self._leases:
            self._leases[most] = compiled(self._lease(most))
        return self._leases[most]

    def _lease(self, most: int) -> Any:
        job = self._job
        held = (
            select(job)
            .where(
                job.c.state == literal(LEASED),
                job.c.queue == any_of("queues"),
                job.c.lease_token == given("token", TOKEN),
            )
            .cte("held")
        )
        claimed = (
            update(job)
            .where(literal_column("ctid") == func.any(func.array(self._claimable(most, held).scalar_subquery())))
            .values(
                state=literal(LEASED),
                attempts=one_more(job.c.attempts),
                lease_token=given("token", TOKEN),
                lease_owner=given("worker_id", Text()),
                lease_until=after(NOW, given("duration", BigInteger())),
            )
            .returning(*job.c)
            .cte("claimed")
        )
        return select(NOW, *row_of(claimed)).union_all(select(NOW, *row_of(held)))

    def _claimable(self, most: int, held: CTE) -> Any:
        # Loops within loops, none of them sorted: they stop, and so lock no further row, once the limit is reached.
        job = self._job
        turns, priority = unnested(queues=Text()), priorities()
        ready = (
            select(literal_column(f"{job.name}.ctid").label("place"))
            .where(
                job.c.queue == turns.c.queues,
                job.c.priority == priority.c.priority,
                is_waiting(job),
                job.c.due_at <= NOW,
            )
            .order_by(job.c.due_at, job.c.id)
            .limit(literal(most))
            .with_for_update(skip_locked=True)
            .correlate(turns, priority)
            .lateral("ready")
        )
        share = (
            select(ready.c.place)
            .select_from(priority.join(ready, true()))
            .limit(given("share", Integer()))
            .correlate(turns)
            .lateral("share")
        )
        paused = select(self._queue.c.name).where(self._queue.c.paused)
        left = (
            given("limit", Integer()) - select(catalog.count(literal_column("*"))).select_from(held).scalar_subquery()
        )
        return (
            select(share.c.place)
            .select_from(turns.join(share, true()))
            # As an array it is read once, and cannot turn the loops into another kind of join.
            .where(turns.c.queues != func.all(func.array(paused.scalar_subquery())))
            .limit(func.greatest(left, literal(0)))
        )

    @cached_property
    def next_due(self) -> str:
        """Microseconds until the next job is due, NULL = none waits."""
        job = self._job
        names, priority = unnested(queues=Text()), priorities()
        first = (
            select(job.c.due_at)
            .where(
                job.c.queue == names.c.queues,
                job.c.priority == priority.c.priority,
                is_waiting(job),
                job.c.due_at > NOW,
            )
            .order_by(job.c.due_at)
            .limit(literal(1))
            .correlate(names, priority)
            .lateral("first")
        )
        return compiled(
            select(catalog.min(first.c.due_at) - NOW).select_from(names.join(priority, true()).join(first, true()))
        )

    @cached_property
    def next_expiry(self) -> str:
        """Microseconds until the next lease expires, at most 0 = one has, NULL = there is none. Reads each once."""
        job, names = self._job, unnested(queues=Text())
        leased = (job.c.queue == names.c.queues, job.c.state == literal(LEASED))
        first = select(catalog.min(expiry_of(job)).label("at")).where(*leased).correlate(names).lateral("first")
        return compiled(select(catalog.min(first.c.at) - NOW).select_from(names.join(first, true())))

    @cached_property
    def recover(self) -> str:
        """Recovers up to `limit` leases: how many became ready, and dead, and the queues of those that are ready."""
        return compiled(self._recover(keeps_dead=True))

    @cached_property
    def recover_deleting(self) -> str:
        """The same where dead jobs are not kept."""
        return compiled(self._recover(keeps_dead=False))

    def _recover(self, *, keeps_dead: bool) -> Any:
        job = self._job
        used_up = job.c.attempts > job.c.max_retries
        places = func.array(select(self._expired().c.place).scalar_subquery())
        # By place, as an array: no plan can join each lease with each, whatever the planner believes of their number.
        is_it = literal_column("ctid") == func.any(places)
        changes = freed(
            state=case((used_up, literal(DEAD)), else_=literal(SCHEDULED)),
            due_at=NOW,
            finished_at=case((used_up, NOW)),
            crashes=one_more(job.c.crashes),
            errors=with_error(job, given("error", Text())),
        )
        revived = update(job).where(is_it).values(**changes).returning(job.c.queue, job.c.state)
        if keeps_dead:
            moved = revived.cte("moved")
        else:
            buried = delete(job).where(is_it, used_up).returning(job.c.queue, literal(DEAD).label("state"))
            moved = revived.where(~used_up).cte("revived")
            gone = buried.cte("buried")
            moved = select(moved).union_all(select(gone)).cte("moved")
        number = catalog.count(literal_column("*"))
        return select(
            number.filter(moved.c.state == literal(SCHEDULED)),
            number.filter(moved.c.state == literal(DEAD)),
            catalog.array_agg(moved.c.queue.distinct()).filter(moved.c.state == literal(SCHEDULED)),
        )

    def _expired(self) -> CTE:
        # Who settles or renews one of them right now is faster: its row is skipped, and no longer expired or leased. So
        # nothing is waited for, and no order of locks is needed. The order of the index is, lest the table be scanned.
        job, names = self._job, unnested(queues=Text())
        found = (
            select(literal_column(f"{job.name}.ctid").label("place"))
            .where(job.c.queue == names.c.queues, job.c.state == literal(LEASED), expiry_of(job) <= NOW)
            .order_by(job.c.lease_token)
            .limit(given("limit", Integer()))
            .with_for_update(skip_locked=True)
            .correlate(names)
            .lateral("found")
        )
        chosen = select(found.c.place).select_from(names.join(found, true())).limit(given("limit", Integer()))
        return chosen.cte("expired").prefix_with("MATERIALIZED")
