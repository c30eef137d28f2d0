"""Statements of enqueue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from scheduler_backends.postgres.statements.parts import NOW, after, row_of
from scheduler_backends.sql.columns import COLUMNS, STORED
from scheduler_backends.sql.encoding import Moments
from scheduler_backends.sql.states import SCHEDULED

COPIED: Final = {name: COLUMNS[name].type for name in ("state", *Moments._fields, *STORED)}
"""The columns that are written for a new job, and their types."""

# The parameters of each job, and their types. run_at NULL = now plus the delay, by the server's clock.
_PASSED: Final = {
    **{name: "text" if column.type == "jsonb" else column.type for name, column in STORED.items()},
    "run_at": "bigint",
    "delay": "bigint",
}


def _values(of: Callable[[str], str]) -> str:
    """Return SQL for the values of `COPIED`. *of* returns the SQL for a parameter's name."""
    run_at = f"coalesce({of('run_at')}, {after(of('delay'))})"
    stored = [of(name) + "::jsonb" * (column.type == "jsonb") for name, column in STORED.items()]
    return ", ".join([str(SCHEDULED), run_at, f"greatest({run_at}, {NOW})", NOW, *stored])


class EnqueueStatements:
    """Statements that store new jobs, find existing ones, and notify."""

    def __init__(self, job: str, queue: str) -> None:
        columns = ", ".join(COPIED)

        # For one job, faster than with arrays. Returns the moments, or no row if the id is taken.
        self.insert_one = f"""
INSERT INTO {job} ({columns})
VALUES ({_values(lambda name: f"%({name})s::{_PASSED[name]}")})
ON CONFLICT DO NOTHING RETURNING run_at, due_at, created_at"""

        # Also notifies, even if the id is taken. The moments are NULL in that case.
        self.insert_one_and_notify = f"""
WITH notified AS (SELECT pg_catalog.pg_notify(%(channel)s::text, %(queue)s::text)::text AS sent),
stored AS ({self.insert_one}
)
SELECT stored.run_at, stored.due_at, stored.created_at, notified.sent FROM notified LEFT JOIN stored ON true"""

        # In the order of the key, so that two calls with the same ids do not deadlock. Of an id, the first is stored.
        arrays = ", ".join(f"%({name})s::{type_}[]" for name, type_ in _PASSED.items())
        self.insert = f"""
INSERT INTO {job} ({columns})
SELECT {_values(lambda name: f"new.{name}")}
FROM unnest({arrays}) WITH ORDINALITY AS new ({", ".join(_PASSED)}, n)
ORDER BY new.queue, new.id, new.n
ON CONFLICT DO NOTHING RETURNING queue, id, run_at, due_at, created_at"""

        # Stores no row at all if one id is taken.
        self.copy = f"COPY {job} ({columns}) FROM STDIN (FORMAT BINARY)"

        # The time for COPY, whose rows cannot contain expressions.
        self.now = f"SELECT {NOW}"

        # The jobs with these keys as they are now. The current time is the first column.
        self.find = f"""
SELECT {NOW}, {row_of("job")}
FROM unnest(%(queue)s::text[], %(id)s::text[]) AS asked (queue, id)
JOIN {job} AS job ON job.queue = asked.queue AND job.id = asked.id"""

        # Adds queues to the table of queues.
        self.enter_queues = f"""
INSERT INTO {queue} (name)
SELECT asked.name FROM pg_catalog.unnest(%(name)s::text[]) AS asked (name) ORDER BY asked.name
ON CONFLICT DO NOTHING"""

        self.notify = """
SELECT pg_catalog.pg_notify(%(channel)s::text, asked.name) FROM pg_catalog.unnest(%(name)s::text[]) AS asked (name)"""
