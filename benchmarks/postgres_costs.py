"""
Costs on PostgreSQL only: write-ahead log, heap-only updates, and a lease in a table of a million rows.

wal_per_cycle: bytes of log for leasing and completing a job of 200 bytes, with hardly any full-page images.
renew_hot: share of renewals that change no index. All held jobs are renewed five times.
lease_past_million: a lease of 64 jobs, with 100 times --size rows of a more urgent priority that are not due.
"""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Iterator
from functools import partial
from urllib.parse import parse_qs, urlsplit

from psycopg import sql

from benchmarks import benchmark_store
from benchmarks.baselines_sql import postgres
from benchmarks.benchmark_store import SLICE, TYPE, BenchmarkStore
from benchmarks.command import main
from benchmarks.measure import MILLISECONDS, Measure, Unit
from scheduler.backend import Backend
from scheduler.errors import NotSupported
from scheduler.jobs import NewJob, Priority

BYTES = Unit("bytes/job", float)
PERCENT = Unit("%", lambda share: share * 100.0)
BATCH = 64
HELD = 640
RENEWALS = 5
STABLE = 3  # equal readings in a row, until statistics are complete
AHEAD = 100  # rows that are not due, for each of --size


def measures(bench: BenchmarkStore) -> Iterator[Measure]:
    """Yield all measures. Raise `NotSupported` on other stores."""
    if bench.store != "postgres":
        raise NotSupported("these costs can only be read from PostgreSQL: --backend postgresql://…")
    yield Measure(name="wal_per_cycle", unit=BYTES, run=partial(log_of_a_cycle, bench))
    yield Measure(name="renew_hot", unit=PERCENT, run=partial(heap_only_renewals, bench))
    yield Measure(name="lease_past_million", unit=MILLISECONDS, run=partial(lease_past_rows, bench))


def log_of_a_cycle(bench: BenchmarkStore) -> float:
    """Return bytes per job. The schema is new: pages created since the checkpoint need no full image."""
    schema = f"bench_{uuid.uuid4().hex[:12]}"
    backend = bench.open(schema=schema)
    try:
        with postgres(bench.url) as session:
            session.execute("CHECKPOINT")
            _fill(backend, "wal", bench.size)
            before = session.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
            while leases := benchmark_store.lease(backend, "wal", BATCH):
                benchmark_store.complete(backend, leases)
            row = session.execute("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), %s)", before).fetchone()
    finally:
        backend.close()
        with postgres(bench.url) as session:
            session.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(schema)))
    return float(row[0]) / bench.size if row else 0.0


def heap_only_renewals(bench: BenchmarkStore) -> float:
    """Return the share of renewals that were heap-only updates."""
    queue = bench.new_queue()
    _fill(bench.backend, queue, HELD)
    held = []
    while leases := benchmark_store.lease(bench.backend, queue, BATCH):
        held += leases
    before = _updates(bench)
    for _ in range(RENEWALS):
        bench.backend.renew(held, benchmark_store.LEASE)
    after = _updates(bench)
    benchmark_store.complete(bench.backend, held)
    return (after[1] - before[1]) / (after[0] - before[0])


def _updates(bench: BenchmarkStore) -> tuple[int, int]:
    """Return the numbers of all updates and of heap-only updates, once every session has reported them."""
    (schema,) = parse_qs(urlsplit(bench.url).query).get("schema", ["scheduler"])
    found: list[tuple[int, int]] = []
    while len(found) < STABLE or len(set(found[-STABLE:])) > 1:
        time.sleep(1.1)
        bench.backend.ping()  # a session reports at its next use, at least a second later
        with postgres(bench.url) as session:
            row = session.execute(
                "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE schemaname = %s AND relname = 'job'",
                [schema],
            ).fetchone()
        found.append(row or (0, 0))
    return found[-1]


def lease_past_rows(bench: BenchmarkStore) -> float:
    """Return the seconds per lease call."""
    queue = bench.new_queue()
    _fill(bench.backend, queue, bench.size * AHEAD, delay=3_600.0, priority=Priority.URGENT)
    _fill(bench.backend, queue, bench.size)
    seconds, calls = 0.0, 0
    while True:
        start = time.perf_counter()
        leases = benchmark_store.lease(bench.backend, queue, BATCH)
        seconds += time.perf_counter() - start
        if not leases:
            return seconds / calls
        calls += 1
        benchmark_store.complete(bench.backend, leases)


def _fill(
    backend: Backend, queue: str, count: int, *, delay: float = 0.0, priority: Priority = Priority.NORMAL
) -> None:
    for start in range(0, count, SLICE):
        number = min(SLICE, count - start)
        backend.enqueue(
            [NewJob(type=TYPE, payload=b"x" * 200, queue=queue, delay=delay, priority=priority) for _ in range(number)]
        )


if __name__ == "__main__":
    sys.exit(main(__doc__, measures, size=10_000))
