"""get, list and stats."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from sqlalchemy import (
    BigInteger,
    Integer,
    SmallInteger,
    Text,
    cast,
    exists,
    func,
    literal_column,
    select,
    true,
    union,
)

from scheduler.states import JobState
from scheduler_backends.postgres.statements.parts import (
    NOW,
    TOKEN,
    any_of,
    catalog,
    compiled,
    given,
    is_waiting,
    literal,
    priorities,
    row_of,
    unnested,
)
from scheduler_backends.postgres.statements.state_filter import AHEAD, beyond, first_of, key_of, state_filter
from scheduler_backends.sql.counting import CAP
from scheduler_backends.sql.cursors import goes_by_priority
from scheduler_backends.sql.rows import EARLIEST
from scheduler_backends.sql.tables import Tables


class ReadStatements:
    """What the store tells of its jobs."""

    def __init__(self, tables: Tables) -> None:
        self._job = tables.job
        self._queue = tables.queue
        self._walks: dict[JobState, str] = {}

    @cached_property
    def get(self) -> str:
        """The jobs with these ids, each behind the moment."""
        job = self._job
        return compiled(
            select(NOW, *row_of(job)).where(job.c.queue == given("queue", Text()), job.c.id == any_of("ids"))
        )

    def walk(self, state: JobState) -> str:
        """The jobs in *state* after a position, each behind the moment and its key."""
        if state not in self._walks:
            job, key = self._job, key_of(self._job, state)
            kind: Any = TOKEN if state is JobState.LEASED else BigInteger()
            priority = given("priority", SmallInteger()) if goes_by_priority(state) else None
            behind = beyond(job, state, given("key", kind), given("id", Text()))
            found = state_filter(job, state, given("queue", Text()), priority, later=behind)
            self._walks[state] = compiled(
                select(NOW, cast(key, Text) if state is JobState.LEASED else key, *row_of(job))
                .where(*found, *([] if state in AHEAD else [behind]))
                .order_by(key, job.c.id)
                .limit(given("limit", Integer()))
            )
        return self._walks[state]

    @cached_property
    def stats(self) -> str:
        """For each queue given: its name, whether it is paused, the age of its oldest ready job, and capped counts."""
        names = unnested(queues=Text())
        name = names.c.queues
        counts = [self._count(names, state) for state in JobState]
        paused = exists().where(self._queue.c.name == name, self._queue.c.paused).correlate(names)
        return compiled(select(name, paused, NOW - self._oldest(names), *counts).select_from(names))

    def _count(self, names: Any, state: JobState) -> Any:
        # In scheduled, all that wait for their time are counted: no index tells scheduled jobs and retries apart.
        cap = literal(2 * CAP if state is JobState.SCHEDULED else CAP)
        rows = first_of(
            self._job, state, names.c.queues, literal(1), cap, around=[names], with_retries=state is JobState.SCHEDULED
        )
        return select(catalog.count(literal_column("*"))).select_from(rows.lateral()).scalar_subquery()

    def _oldest(self, names: Any) -> Any:
        job, priority = self._job, priorities()
        first = (
            select(job.c.due_at)
            .where(
                job.c.queue == names.c.queues,
                job.c.priority == priority.c.priority,
                is_waiting(job),
                job.c.due_at <= NOW,
            )
            .order_by(job.c.due_at)
            .limit(literal(1))
            .correlate(names, priority)
            .lateral("first")
        )
        earliest = func.greatest(first.c.due_at, literal(EARLIEST))
        found = select(catalog.min(earliest)).select_from(priority.join(first, true()))
        return found.correlate(names).scalar_subquery()

    @cached_property
    def known_queues(self) -> str:
        """Every queue that has jobs, was enqueued to or paused. The jobs' are found by one probe each, not a scan."""
        job = self._job
        used = select(catalog.min(job.c.queue).label("name")).cte("used", recursive=True)
        following = select(catalog.min(job.c.queue)).where(job.c.queue > used.c.name).scalar_subquery()
        used = used.union_all(select(following).where(used.c.name.is_not(None)))
        return compiled(union(select(used.c.name).where(used.c.name.is_not(None)), select(self._queue.c.name)))
