"""Counters of the servers themselves."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from benchmarks.baselines import KINDS
from benchmarks.baselines_redis import client
from benchmarks.baselines_sql import postgres


@contextmanager
def requests(url: str) -> Iterator[Callable[[], int] | None]:
    """
    Yield a function that returns how many requests the server has read, except this client's; None without a server.

    Redis: reads, so a pipeline counts once. PostgreSQL: transactions, with a second's delay.
    """
    own = itertools.count()  # each reading is a request, which the next one counts too
    kind = KINDS.get(url.partition(":")[0])
    if kind == "redis":
        with client(url) as (connection, _):
            connection.ping()  # connecting sends requests as well
            yield lambda: int(connection.info("stats")["total_reads_processed"]) - next(own)
    elif kind == "postgres":
        with postgres(url) as session:

            def transactions() -> int:
                row = session.execute(
                    "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
                ).fetchone()
                return (0 if row is None else int(row[0])) - next(own)

            yield transactions
    else:
        yield None
