"""Request counters of the servers."""

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
    Yield a function that returns how many requests the server has read. Yield None for stores without a server.

    Requests of this client are not counted. On Redis these are reads, so a pipeline counts once. On PostgreSQL these
    are transactions, which appear with a delay of a second.
    """
    own = itertools.count()  # each reading is a request, which the next reading includes
    kind = KINDS.get(url.partition(":")[0])
    if kind == "redis":
        with client(url) as (connection, _):
            connection.ping()  # connecting sends requests too
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
