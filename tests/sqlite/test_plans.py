"""What a move looks at does not grow with the jobs that it does not move."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Final

import pytest

from scheduler.identity import new_token
from scheduler.jobs import NewJob, Priority
from scheduler.queues import Retention
from scheduler.states import JobState
from scheduler_backends.sql.states import CANCELLED, DEAD, SUCCEEDED
from scheduler_backends.sqlite import SqliteBackend
from scheduler_backends.sqlite.slots import Open

QUEUE: Final = "plans"
FINISHED: Final = (SUCCEEDED, DEAD, CANCELLED)
MANY: Final = 10_000


def instructions(backend: SqliteBackend, work: Callable[[], object]) -> int:
    """How many instructions SQLite's virtual machine needs for *work*, to the next ten."""
    counted = [0]

    def count() -> int:
        counted[0] += 10
        return 0

    mine = backend._store.file._open.get(Open)
    connections = [mine.reader.connection, mine.writer.connection]
    for connection in connections:
        connection.set_progress_handler(count, 10)
    work()
    for connection in connections:
        connection.set_progress_handler(None, 0)
    return counted[0]


def lease(backend: SqliteBackend) -> None:
    leases = backend.lease([QUEUE], token=new_token(), worker_id="w", duration=60.0, limit=10)
    assert len(leases) == 10
    assert backend.release(leases) == []


def look(backend: SqliteBackend) -> None:
    backend.promote_due([QUEUE], 100)
    backend.recover_expired([QUEUE], 100)


@pytest.mark.parametrize("many", ["finished", "future"])
def test_neither_finished_nor_future_jobs_cost_a_lease_anything(path, many):
    """Both more urgent than the ten that are ready."""
    with closing(SqliteBackend(path, retention=Retention(succeeded=3_600.0, cancelled=3_600.0))) as backend:
        backend.enqueue([NewJob(type="mail", queue=QUEUE) for _ in range(10)])
        lease(backend)
        look(backend)
        before = {work: instructions(backend, lambda work=work: work(backend)) for work in (lease, look)}
        urgent = [NewJob(type="mail", queue=QUEUE, priority=Priority.URGENT, delay=3_600.0) for _ in range(MANY)]
        backend.enqueue(urgent)
        if many == "finished":
            with closing(sqlite3.connect(path)) as direct, direct:
                for number, state in enumerate(FINISHED):
                    direct.execute(
                        "UPDATE scheduler_job SET state = ?, finished_at = created_at, due_at = created_at "
                        f"WHERE priority = 0 AND rowid % {len(FINISHED)} = ?",
                        (state, number),
                    )
            assert backend.stats([QUEUE])[0].counts[JobState.SUCCEEDED] > MANY // 4
        for work, cost in before.items():
            assert instructions(backend, lambda work=work: work(backend)) <= 2 * cost + 500


@pytest.mark.parametrize("analyzed", [False, True], ids=["never analyzed", "analyzed"])
def test_no_page_of_a_list_reads_those_before_it_nor_the_ready_jobs(path, analyzed):
    """And a purge of one state reads no other."""
    with closing(SqliteBackend(path)) as backend:
        backend.enqueue([NewJob(type="mail", queue=QUEUE) for _ in range(MANY)])
        backend.enqueue([NewJob(type="mail", queue=QUEUE, delay=3_600.0) for _ in range(MANY)])
        if analyzed:
            with closing(sqlite3.connect(path)) as direct, direct:
                direct.execute("ANALYZE")
        assert backend.stats([QUEUE])
        first = backend.list(QUEUE, JobState.SCHEDULED, limit=10)
        far = backend.list(QUEUE, JobState.SCHEDULED, limit=MANY - 100)

        def walk(cursor: str | None) -> None:
            assert len(backend.list(QUEUE, JobState.SCHEDULED, cursor=cursor, limit=10).jobs) == 10

        near = instructions(backend, lambda: walk(first.cursor))
        assert instructions(backend, lambda: walk(None)) <= 2 * near + 500
        assert instructions(backend, lambda: walk(far.cursor)) <= 2 * near + 500
        for state in (JobState.SCHEDULED, JobState.READY):
            assert instructions(backend, lambda state=state: backend.purge(QUEUE, state, 10)) <= 5 * near + 2_000
