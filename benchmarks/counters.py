"""What a server counts by itself."""

from __future__ import annotations

from benchmarks.floors import KINDS
from benchmarks.floors_redis import client
from benchmarks.floors_sql import postgres


def round_trips(url: str) -> int | None:
    """
    How many requests the server has read so far, of all its clients; None where there is no server to ask.

    Redis: reads, so a pipeline counts once. PostgreSQL: transactions, with a second's delay.
    """
    kind = KINDS.get(url.partition(":")[0])
    if kind == "redis":
        with client(url) as (connection, _):
            return int(connection.info("stats")["total_reads_processed"])
    if kind == "postgres":
        with postgres(url) as session:
            row = session.execute(
                "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
            ).fetchone()
            return None if row is None else int(row[0])
    return None
