"""enqueue."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

from sqlalchemy import BigInteger, Double, Integer, SmallInteger, Text, cast, func, select, true
from sqlalchemy.dialects.postgresql import BYTEA, JSONB, insert
from sqlalchemy.types import TypeEngine

from scheduler_backends.postgres.statements.parts import (
    DIALECT,
    NOW,
    after,
    catalog,
    compiled,
    given,
    literal,
    row_of,
    unnested,
)
from scheduler_backends.sql.states import SCHEDULED
from scheduler_backends.sql.tables import Tables

# What a call gives of each job, as arrays. run_at NULL = now plus the delay, by the server's clock.
COLUMNS: Final[dict[str, TypeEngine[Any]]] = {
    "queue": Text(),
    "id": Text(),
    "type": Text(),
    "payload": BYTEA(),
    "priority": SmallInteger(),
    "max_retries": Integer(),
    "timeout": Double(),
    "run_at": BigInteger(),
    "delay": BigInteger(),
    "retry_policy": Text(),
    "idempotency_key": Text(),
    "metadata": Text(),
    "nonce": Text(),
}

# The columns of a COPY, which has no server's clock to reckon with, and their types there.
COPIED: Final = {
    **dict.fromkeys(("queue", "id", "type"), "text"),
    "payload": "bytea",
    "priority": "int2",
    "state": "int2",
    "max_retries": "int4",
    "timeout": "float8",
    **dict.fromkeys(("run_at", "due_at", "created_at"), "int8"),
    "retry_policy": "jsonb",
    "idempotency_key": "text",
    "metadata": "jsonb",
    "nonce": "text",
}


class StoringStatements:
    """→ scheduled, or ready when due."""

    def __init__(self, tables: Tables) -> None:
        self._job = tables.job
        self._queue = tables.queue

    @cached_property
    def insert(self) -> str:
        """Stores what is not there yet, and answers for what it stored."""
        new = unnested(None, **COLUMNS)
        run_at = func.coalesce(new.c.run_at, after(NOW, new.c.delay))
        values = {
            **{name: new.c[name] for name in COLUMNS if name != "delay"},
            "retry_policy": cast(new.c.retry_policy, JSONB),
            "metadata": cast(new.c.metadata, JSONB),
            "run_at": run_at,
            "due_at": func.greatest(run_at, NOW),
            "created_at": NOW,
            "state": literal(SCHEDULED),
        }
        # In the order of the key, so that two calls with the same ids never wait for each other; of one id, the first.
        rows = select(*values.values()).order_by(new.c.queue, new.c.id, new.c.n)
        job = self._job
        return compiled(
            insert(job)
            .from_select(list(values), rows, include_defaults=False)
            .on_conflict_do_nothing()
            .returning(job.c.queue, job.c.id, job.c.run_at, job.c.due_at, job.c.created_at)
        )

    @cached_property
    def insert_one(self) -> str:
        """The same for one job: without the arrays it takes less time. Answers its moments, or nothing."""
        return compiled(self._insert_one())

    @cached_property
    def insert_one_and_notify(self) -> str:
        """Tells the listeners as well, whether it stored the job or not; then the moments are NULL."""
        stored = self._insert_one().cte("stored")
        told = select(cast(catalog.pg_notify(given("channel", Text()), given("queue", Text())), Text)).cte("told")
        return compiled(select(stored, told).select_from(told.outerjoin(stored, true())))

    def _insert_one(self) -> Any:
        run_at = func.coalesce(given("run_at", BigInteger()), after(NOW, given("delay", BigInteger())))
        job = self._job
        return (
            insert(job)
            .values(
                **{name: given(name, type_) for name, type_ in COLUMNS.items() if name != "delay"}
                | {
                    "retry_policy": cast(given("retry_policy", Text()), JSONB),
                    "metadata": cast(given("metadata", Text()), JSONB),
                    "run_at": run_at,
                    "due_at": func.greatest(run_at, NOW),
                    "created_at": NOW,
                    "state": literal(SCHEDULED),
                    "attempts": literal(0),
                    "crashes": literal(0),
                }
            )
            .on_conflict_do_nothing()
            .returning(job.c.run_at, job.c.due_at, job.c.created_at)
        )

    @cached_property
    def copy(self) -> str:
        """Takes rows of `COPIED` as they are, and refuses all of them if one id is there already."""
        table = DIALECT.identifier_preparer.format_table(self._job)
        return f"COPY {table} ({', '.join(COPIED)}) FROM STDIN (FORMAT BINARY)"

    @cached_property
    def find(self) -> str:
        """The jobs with these keys, as they are now."""
        wanted = unnested(queue=Text(), id=Text())
        job = self._job
        return compiled(
            select(NOW, *row_of(job)).join_from(
                wanted, job, (job.c.queue == wanted.c.queue) & (job.c.id == wanted.c.id)
            )
        )

    @cached_property
    def know_queues(self) -> str:
        """Enters queues in the list of those that the store knows."""
        names = unnested(name=Text())
        return compiled(
            insert(self._queue)
            .from_select(["name"], select(names.c.name).order_by(names.c.name), include_defaults=False)
            .on_conflict_do_nothing()
        )

    @cached_property
    def notify(self) -> str:
        """Tells the listeners of `channel` about queues."""
        names = unnested(name=Text())
        return compiled(select(catalog.pg_notify(given("channel", Text()), names.c.name)).select_from(names))

    @cached_property
    def now(self) -> str:
        """The server's clock."""
        return compiled(select(NOW))
