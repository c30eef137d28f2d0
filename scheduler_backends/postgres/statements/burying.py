"""The end of jobs that cannot be read."""

from __future__ import annotations

from functools import cached_property

from sqlalchemy import Integer, Text, case, func, literal_column, select, update

from scheduler_backends.postgres.statements.parts import (
    NOW,
    TOKEN,
    Expression,
    any_of,
    compiled,
    freed,
    given,
    is_finished,
    literal,
    locked,
    unnested,
    with_error,
)
from scheduler_backends.sql.checks import STRAY
from scheduler_backends.sql.states import DEAD
from scheduler_backends.sql.tables import Tables


class BuryingStatements:
    """→ dead, and everything else in the row stays as it is."""

    def __init__(self, tables: Tables) -> None:
        self._job = tables.job

    @cached_property
    def unreadable(self) -> str:
        """Those of the jobs with these keys that the token holds; answers their ids."""
        job, wanted = self._job, unnested(queues=Text(), ids=Text())
        is_held = (
            (job.c.queue == wanted.c.queues) & (job.c.id == wanted.c.ids) & (job.c.lease_token == given("token", TOKEN))
        )
        held = locked(select(job.c.queue, job.c.id).join_from(wanted, job, is_held), job)
        is_row = (job.c.queue == held.c.queue) & (job.c.id == held.c.id)
        changes = freed(state=literal(DEAD), finished_at=NOW)
        return compiled(update(job).where(is_row).values(**changes).returning(job.c.id))

    @cached_property
    def stray(self) -> str:
        """Up to `limit` jobs that no worker would ever come upon, with the error; answers their queues and ids."""
        job = self._job
        place: Expression = literal_column("ctid")
        found = (
            select(place)
            .select_from(job)
            .where(job.c.queue == any_of("queues"), literal_column(STRAY))
            .limit(given("limit", Integer()))
            .with_for_update(skip_locked=True)
        )
        changes = freed(
            errors=case((is_finished(job), job.c.errors), else_=with_error(job, given("error", Text()))),
            state=case((is_finished(job), job.c.state), else_=literal(DEAD)),
            finished_at=NOW,
        )
        places = func.any(func.array(found.scalar_subquery()))
        return compiled(update(job).where(place == places).values(**changes).returning(job.c.queue, job.c.id))
