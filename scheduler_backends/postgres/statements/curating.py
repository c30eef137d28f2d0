"""cancel, requeue, purge, trim, pause and resume."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Integer,
    SmallInteger,
    Text,
    delete,
    func,
    literal_column,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from scheduler.states import JobState
from scheduler_backends.postgres.statements.parts import (
    NOW,
    NULL,
    Expression,
    any_of,
    catalog,
    compiled,
    given,
    is_finished,
    is_waiting,
    literal,
    locked,
    unnested,
)
from scheduler_backends.postgres.statements.state_filter import first_of
from scheduler_backends.sql.states import CANCELLED, CODES, DEAD, SCHEDULED
from scheduler_backends.sql.tables import Tables


class CuratingStatements:
    """What an operator, or retention, does to a queue."""

    def __init__(self, tables: Tables) -> None:
        self._job = tables.job
        self._queue = tables.queue

    @cached_property
    def cancel(self) -> str:
        """Answers each id that is there: the state before, whether it was due, and whether it moved."""
        return self._move(is_waiting(self._job), {"state": literal(CANCELLED), "finished_at": NOW})

    @cached_property
    def cancel_deleting(self) -> str:
        """The same where cancelled jobs are not kept."""
        return self._move(is_waiting(self._job), None)

    @cached_property
    def requeue(self) -> str:
        """As `cancel`. The errors stay."""
        changes = {
            "state": literal(SCHEDULED),
            "due_at": NOW,
            "finished_at": NULL,
            "attempts": literal(0),
            "crashes": literal(0),
        }
        # Not by DEAD: a state that is none of ours counts as dead.
        others = [literal(code) for code in CODES.values() if code != DEAD]
        return self._move(self._job.c.state.not_in(others), changes)

    def _move(self, may_move: Expression, changes: Mapping[str, Expression] | None) -> str:
        job = self._job
        rows = select(job.c.queue, job.c.id, job.c.state, job.c.due_at, may_move.label("moves"))
        found = locked(rows.where(job.c.queue == given("queue", Text()), job.c.id == any_of("ids")), job)
        change: Any = delete(job) if changes is None else update(job).values(**changes)
        moved = (
            change.where(job.c.queue == found.c.queue, job.c.id == found.c.id, found.c.moves)
            .returning(job.c.id)
            .cte("moved")
        )
        return compiled(
            select(found.c.id, found.c.state, found.c.due_at <= NOW, moved.c.id.is_not(None)).outerjoin_from(
                found, moved, found.c.id == moved.c.id
            )
        )

    def purge(self, state: JobState) -> str:
        """Deletes up to `limit` jobs of the queue that stand in *state*."""
        job, limit = self._job, given("limit", Integer())
        return self._delete(first_of(job, state, given("queue", Text()), _place(job), limit, lock=True))

    @cached_property
    def trim(self) -> str:
        """Deletes up to `limit` jobs that finished, in a state, at or before `before` microseconds ago."""
        job = self._job
        outlived = (
            job.c.queue == given("queue", Text()),
            job.c.state == given("state", SmallInteger()),
            is_finished(job),
            job.c.finished_at <= NOW - given("kept", BigInteger()),
        )
        doomed = select(_place(job)).select_from(job).where(*outlived).order_by(job.c.finished_at)
        return self._delete(doomed.limit(given("limit", Integer())).with_for_update(skip_locked=True))

    def _delete(self, doomed: Any) -> str:
        # By place: the rows are locked, and skipped where somebody else has them.
        place = literal_column("ctid") == func.any(func.array(doomed.scalar_subquery()))
        gone = delete(self._job).where(place).returning(literal(1)).cte()
        return compiled(select(catalog.count(literal_column("*"))).select_from(gone))

    @cached_property
    def outlived(self) -> str:
        """The queues, of those given, in whose state retention has anything to delete."""
        job, names = self._job, unnested(queues=Text())
        # Not EXISTS, which knows no order: see `first_of`.
        oldest = (
            select(job.c.finished_at)
            .where(job.c.queue == names.c.queues, job.c.state == given("state", SmallInteger()), is_finished(job))
            .order_by(job.c.finished_at)
            .limit(literal(1))
            .correlate(names)
            .scalar_subquery()
        )
        return compiled(select(names.c.queues).where(oldest <= NOW - given("kept", BigInteger())))

    @cached_property
    def set_paused(self) -> str:
        """Pauses a queue or resumes it."""
        queue = self._queue
        paused = given("paused", Boolean())
        stored = insert(queue).values(name=given("name", Text()), paused=paused)
        return compiled(stored.on_conflict_do_update(index_elements=[queue.c.name], set_={"paused": paused}))


def _place(job: Any) -> Expression:
    """Where a row lies."""
    return literal_column(f"{job.name}.ctid")
