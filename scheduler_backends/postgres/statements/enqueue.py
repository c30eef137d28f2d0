"""enqueue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from scheduler_backends.postgres.statements.parts import NOW, after, row_of
from scheduler_backends.sql.columns import COLUMNS, STORED
from scheduler_backends.sql.encoding import Moments
from scheduler_backends.sql.states import SCHEDULED

COPIED: Final = {name: COLUMNS[name].type for name in ("state", *Moments._fields, *STORED)}
"""The columns of a new job, and their types."""

# What a call passes of each job. run_at NULL = now plus the delay, by the server's clock.
_PASSED: Final = {
    **{name: "text" if column.type == "jsonb" else column.type for name, column in STORED.items()},
    "run_at": "bigint",
    "delay": "bigint",
}


def _values(of: Callable[[str], str]) -> str:
    """Return the values of `COPIED`, where *of* is the text for something that the call passes."""
    run_at = f"coalesce({of('run_at')}, {after(of('delay'))})"
    stored = [of(name) + "::jsonb" * (column.type == "jsonb") for name, column in STORED.items()]
    return ", ".join([str(SCHEDULED), run_at, f"greatest({run_at}, {NOW})", NOW, *stored])


class EnqueueStatements:
    """→ scheduled, or ready when due."""

    def __init__(self, job: str, queue: str) -> None:
        columns = ", ".join(COPIED)

        # One job: without arrays it takes less time. Returns its moments, or nothing where the id is taken.
        self.insert_one = f"""
INSERT INTO {job} ({columns})
VALUES ({_values(lambda name: f"%({name})s::{_PASSED[name]}")})
ON CONFLICT DO NOTHING RETURNING run_at, due_at, created_at"""

        # Notifies as well, whether it stored the job or not; then the moments are NULL.
        self.insert_one_and_notify = f"""
WITH notified AS (SELECT pg_catalog.pg_notify(%(channel)s::text, %(queue)s::text)::text AS sent),
stored AS ({self.insert_one}
)
SELECT stored.run_at, stored.due_at, stored.created_at, notified.sent FROM notified LEFT JOIN stored ON true"""

        # In the order of the key, so that two calls with the same ids never wait for each other; of one id, the first.
        arrays = ", ".join(f"%({name})s::{type_}[]" for name, type_ in _PASSED.items())
        self.insert = f"""
INSERT INTO {job} ({columns})
SELECT {_values(lambda name: f"new.{name}")}
FROM unnest({arrays}) WITH ORDINALITY AS new ({", ".join(_PASSED)}, n)
ORDER BY new.queue, new.id, new.n
ON CONFLICT DO NOTHING RETURNING queue, id, run_at, due_at, created_at"""

        # Takes rows as they are, and refuses all of them if one id is there already.
        self.copy = f"COPY {job} ({columns}) FROM STDIN (FORMAT BINARY)"

        # For COPY, which has no clock.
        self.now = f"SELECT {NOW}"

        # The jobs with these keys as they are now, each behind the moment.
        self.find = f"""
SELECT {NOW}, {row_of("job")}
FROM unnest(%(queue)s::text[], %(id)s::text[]) AS asked (queue, id)
JOIN {job} AS job ON job.queue = asked.queue AND job.id = asked.id"""

        # Adds queues to the list of those that were enqueued to.
        self.enter_queues = f"""
INSERT INTO {queue} (name)
SELECT asked.name FROM pg_catalog.unnest(%(name)s::text[]) AS asked (name) ORDER BY asked.name
ON CONFLICT DO NOTHING"""

        self.notify = """
SELECT pg_catalog.pg_notify(%(channel)s::text, asked.name) FROM pg_catalog.unnest(%(name)s::text[]) AS asked (name)"""
