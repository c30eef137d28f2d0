"""complete, retry, bury and release. Each answers the positions of the leases that it took; the others are refused."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from sqlalchemy import BigInteger, Integer, Table, Text, delete, select, update
from sqlalchemy.dialects.postgresql import BYTEA
from sqlalchemy.sql.selectable import CTE
from sqlalchemy.types import TypeEngine

from scheduler_backends.postgres.statements.parts import (
    NOW,
    TOKEN,
    Expression,
    after,
    compiled,
    freed,
    given,
    given_back,
    literal,
    locked,
    unnested,
    with_error,
)
from scheduler_backends.sql.states import DEAD, RETRY_WAIT, SCHEDULED, SUCCEEDED
from scheduler_backends.sql.tables import Tables


def held_leases(job: Table, **columns: TypeEngine[Any]) -> CTE:
    """
    The rows of the call's leases, locked: `n` = the position in the call, and the other arrays of the call.

    By the token alone: `state = leased` beside it led to a plan half as fast, so every way out of leased clears it.
    """
    asked = unnested({"queues": Text(), "ids": Text(), "tokens": TOKEN}, **columns)
    is_held = (job.c.queue == asked.c.queues) & (job.c.id == asked.c.ids) & (job.c.lease_token == asked.c.tokens)
    wanted = [asked.c[name] for name in columns]
    return locked(select(asked.c.n, job.c.queue, job.c.id, *wanted).join_from(asked, job, is_held), job)


def is_row(job: Table, held: CTE) -> Expression:
    """The row that was locked."""
    found: Expression = (job.c.queue == held.c.queue) & (job.c.id == held.c.id)
    return found


class SettlingStatements:
    """Leased → wherever the holder says."""

    def __init__(self, tables: Tables) -> None:
        self._job = tables.job

    @cached_property
    def finish(self) -> str:
        """Retention 0: the job has reached its end and goes at once."""
        held = held_leases(self._job)
        return compiled(delete(self._job).where(is_row(self._job, held)).returning(held.c.n))

    @cached_property
    def complete(self) -> str:
        """→ succeeded."""
        job = self._job
        held = held_leases(job, results=BYTEA())
        changes = freed(state=literal(SUCCEEDED), finished_at=NOW, result=held.c.results)
        return compiled(update(job).where(is_row(job, held)).values(**changes).returning(held.c.n))

    @cached_property
    def retry(self) -> str:
        """→ retry_wait."""
        return self._fail(lambda held: {"state": literal(RETRY_WAIT), "due_at": after(NOW, held.c.delays)})

    @cached_property
    def bury(self) -> str:
        """→ dead."""
        return self._fail(lambda _: {"state": literal(DEAD), "finished_at": NOW})

    def _fail(self, changes: Any) -> str:
        job = self._job
        held = held_leases(job, errors=Text(), delays=BigInteger(), returned=Integer())
        return compiled(
            update(job)
            .where(is_row(job, held))
            .values(
                **freed(
                    errors=with_error(job, held.c.errors),
                    attempts=given_back(job.c.attempts, held.c.returned),
                    **changes(held),
                )
            )
            .returning(held.c.n)
        )

    @cached_property
    def release(self) -> str:
        """→ ready. due_at stays, so the job is first in line again."""
        job = self._job
        held = held_leases(job)
        changes = freed(state=literal(SCHEDULED), attempts=given_back(job.c.attempts, literal(1)))
        return compiled(update(job).where(is_row(job, held)).values(**changes).returning(held.c.n))

    @cached_property
    def renew(self) -> str:
        """Leased → leased. No index holds lease_until, so the update is heap-only."""
        job = self._job
        held = held_leases(job)
        until = after(NOW, given("duration", BigInteger()))
        return compiled(update(job).where(is_row(job, held)).values(lease_until=until).returning(held.c.n))
