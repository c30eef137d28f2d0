"""What a lease looks at does not grow with the jobs that it does not move."""

from __future__ import annotations

from typing import Final

import psycopg
import pytest

from scheduler.identity import new_token
from scheduler.jobs import NewJob, Priority
from scheduler.states import JobState
from scheduler_backends.sql.states import CANCELLED, DEAD, RETRY_WAIT, SCHEDULED, SUCCEEDED

QUEUE: Final = "plans"
FINISHED: Final = (SUCCEEDED, DEAD, CANCELLED)
MANY: Final = 20_000


def pages_of_a_lease(backend, postgres_url) -> int:
    """How many pages of tables and indexes the server touches to lease ten jobs."""
    statement = backend._store.statements.lease.lease[16]
    asked = {
        "now": None, "queues": [QUEUE], "token": new_token(), "worker_id": "w", "duration": 60_000_000, "limit": 10,
        "share": 10,
    }  # fmt: skip
    with psycopg.connect(postgres_url) as direct:
        explained = direct.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", asked)
        plan = explained.fetchone()[0][0]["Plan"]
        direct.rollback()
    assert plan["Actual Rows"] == 10
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


@pytest.mark.every_flavour
@pytest.mark.parametrize("analyzed", [True, False], ids=["analyzed", "never analyzed"])
@pytest.mark.parametrize("many", ["finished", "future"])
def test_neither_finished_nor_future_jobs_cost_a_lease_anything(backend, postgres_url, schema, many, analyzed):
    """Both more urgent than the ten that are ready."""
    backend.migrate()
    with psycopg.connect(postgres_url, autocommit=True) as direct:
        direct.execute(f"ALTER TABLE {schema}.job SET (autovacuum_enabled = off)")
        backend.enqueue([NewJob(type="mail", queue=QUEUE) for _ in range(10)])
        urgent = [NewJob(type="mail", queue=QUEUE, priority=Priority.URGENT, delay=3_600.0) for _ in range(MANY)]
        backend.enqueue(urgent)
        if many == "finished":
            direct.execute(
                f"UPDATE {schema}.job SET state = (%s::smallint[])[1 + abs(hashtext(id)) %% {len(FINISHED)}], "
                "finished_at = created_at, due_at = created_at WHERE priority = 0",
                [list(FINISHED)],
            )
            direct.execute(f"VACUUM {schema}.job")  # the versions in which they waited are not what is asked about
        if analyzed:
            direct.execute(f"ANALYZE {schema}.job")
        pages = pages_of_a_lease(backend, postgres_url)
        assert pages <= 300, pages


@pytest.mark.every_flavour
def test_no_lease_is_compiled_first(backend):
    """Up to version 17, a scan that is off and cannot be avoided made the server compile the plan: a second a call."""
    backend.migrate()
    asked = {
        "now": None, "queues": [QUEUE], "token": new_token(), "worker_id": "w", "duration": 60_000_000, "limit": 10,
        "share": 10,
    }  # fmt: skip
    store = backend._store
    ((explained,),) = store.database.run(f"EXPLAIN (FORMAT JSON) {store.statements.lease.lease[16]}", asked)
    assert "JIT" not in explained[0]


@pytest.mark.parametrize(
    "statistics",
    ["fresh", pytest.param("old", marks=pytest.mark.long), pytest.param("missing", marks=pytest.mark.long)],
)
def test_the_leases_of_a_killed_worker_come_back_whatever_the_planner_knows(
    new_backend, postgres_url, schema, statistics
):
    """In calls that each end within the statement's time-out; by joining each with each they took up to 8 s."""
    backend = new_backend()
    backend.migrate()
    with psycopg.connect(postgres_url, autocommit=True) as direct:
        direct.execute(f"ALTER TABLE {schema}.job SET (autovacuum_enabled = off)")
        if statistics == "old":
            direct.execute(f"ANALYZE {schema}.job")
        for _ in range(6):
            backend.enqueue([NewJob(type="mail", queue=QUEUE) for _ in range(5_000)])
        for _ in range(30):
            backend.lease([QUEUE], token=new_token(), worker_id="w", duration=3_600.0, limit=1_000)
        if statistics == "fresh":
            direct.execute(f"ANALYZE {schema}.job")
        assert backend.recover_expired([QUEUE], 1_000).ready == 0
        direct.execute(f"UPDATE {schema}.job SET lease_until = 1")
        recovered = 0
        for _ in range(30):
            recovery = backend.recover_expired([QUEUE], 1_000)
            recovered += recovery.ready
        assert recovered == 30_000
        assert backend.recover_expired([QUEUE], 1_000).next_expiry is None


def insert(direct, schema, state, due, number):
    """*number* jobs as stored in *state*, due at the moments of an SQL expression over i."""
    direct.execute(
        f"INSERT INTO {schema}.job (queue, id, type, priority, state, max_retries, timeout, run_at, due_at, "
        "created_at, finished_at, nonce, payload) "
        f"SELECT %s, gen_random_uuid(), 'mail', 2, %s, 3, 60, 0, {due}, 0, {'i' if state in FINISHED else 'NULL'}, "
        "'0123456789abcdef', '' FROM generate_series(1, %s) AS i",
        [QUEUE, state, number],
    )


def plan_of(direct, statement, **asked):
    explained = direct.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", {"now": None, **asked})
    return explained.fetchone()[0][0]["Plan"]


def pages(plan) -> int:
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


PAST, FUTURE = "1000000 + i", "8000000000000000 + i"
STORED = {  # as which code, and due when
    JobState.READY: (SCHEDULED, PAST),
    JobState.SCHEDULED: (SCHEDULED, FUTURE),
    JobState.RETRY_WAIT: (RETRY_WAIT, FUTURE),
    JobState.SUCCEEDED: (SUCCEEDED, PAST),
}


@pytest.mark.parametrize("analyzed", [True, False], ids=["analyzed", "never analyzed"])
@pytest.mark.parametrize("state", list(STORED))
def test_jobs_of_a_state_are_found_by_index_where_others_were_stored_first(
    backend, postgres_url, schema, state, analyzed
):
    """Where half of the table matches, a plan for a few of any may read it from its beginning."""
    backend.migrate()
    others = SUCCEEDED if state is JobState.READY else SCHEDULED
    with psycopg.connect(postgres_url, autocommit=True) as direct:
        direct.execute(f"ALTER TABLE {schema}.job SET (autovacuum_enabled = off)")
        insert(direct, schema, others, PAST, MANY)
        insert(direct, schema, *STORED[state], MANY)
        if analyzed:
            direct.execute(f"VACUUM ANALYZE {schema}.job")
        statements = backend._store.statements
        direct.autocommit = False
        purge = plan_of(direct, statements.admin.purge[state], queue=QUEUE, limit=10)
        assert pages(purge) <= 300
        direct.rollback()
        stats = plan_of(direct, statements.reads.stats, queues=[QUEUE])
        direct.rollback()
        assert not seq_scans(stats)
        outlived = plan_of(direct, statements.maintenance.outlived, queues=[QUEUE], state=SUCCEEDED, kept=2**52)
        direct.rollback()
        assert pages(outlived) <= 50


def seq_scans(plan) -> list[str]:
    found = [plan["Relation Name"]] if plan["Node Type"] == "Seq Scan" and plan["Relation Name"] == "job" else []
    return found + [name for below in plan.get("Plans", ()) for name in seq_scans(below)]


@pytest.mark.parametrize("state", [JobState.SCHEDULED, JobState.RETRY_WAIT])
def test_no_page_of_a_list_reads_those_before_it_nor_the_ready_jobs(backend, postgres_url, schema, state):
    """Also where many jobs are due at one moment."""
    backend.migrate()
    stored, _ = STORED[state]
    with psycopg.connect(postgres_url, autocommit=True) as direct:
        insert(direct, schema, stored, PAST, MANY)
        insert(direct, schema, stored, FUTURE, MANY)
        insert(direct, schema, stored, "9000000000000000", MANY)
        direct.execute(f"VACUUM ANALYZE {schema}.job")
        statement = backend._store.statements.reads.walk[state]
        (middle,) = direct.execute(
            f"SELECT id FROM {schema}.job WHERE due_at = 9000000000000000 ORDER BY id OFFSET %s LIMIT 1", [MANY // 2]
        ).fetchone()
        for key, id in ((-(2**63), ""), (8000000000000000 + MANY // 2, ""), (9000000000000000, middle)):
            plan = plan_of(direct, statement, queue=QUEUE, key=key, id=id, limit=10, priority=2)
            assert plan["Actual Rows"] == 10
            assert pages(plan) <= 50


def test_a_recovery_that_finds_nothing_reads_each_lease_once(backend, postgres_url, schema):
    backend.enqueue([NewJob(type="mail", queue=QUEUE) for _ in range(2_000)])
    for _ in range(2):
        backend.lease([QUEUE], token=new_token(), worker_id="w", duration=3_600.0, limit=1_000)
    statement = backend._store.statements.maintenance.next_expiry
    with psycopg.connect(postgres_url) as direct:
        (plan,) = direct.execute(
            f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", {"now": None, "queues": [QUEUE]}
        ).fetchone()
    assert str(plan).count("'Relation Name': 'job'") == 1
    recovery = backend.recover_expired([QUEUE], 1_000)
    assert recovery.next_expiry is not None
    assert recovery.next_expiry > 3_000.0


@pytest.mark.parametrize("statistics", ["missing", "old", "fresh"])
def test_plans_made_on_an_empty_table_read_no_backlog_later(new_backend, postgres_url, schema, statistics):
    """The server keeps the plan of a prepared statement; ours must serve a table that has grown since."""
    backend = new_backend(pool_size=1)
    backend.migrate()

    def lease() -> int:
        held = backend.lease([QUEUE], token=new_token(), worker_id="w", duration=60.0, limit=10)
        backend.renew(held, 60.0)
        backend.release(held)
        return len(held)

    with psycopg.connect(postgres_url, autocommit=True) as direct:
        direct.execute(f"ALTER TABLE {schema}.job SET (autovacuum_enabled = off)")
        for _ in range(12):
            lease()
        if statistics == "old":
            direct.execute(f"ANALYZE {schema}.job")
        backend.enqueue([NewJob(type="mail", queue=QUEUE) for _ in range(5_000)])
        if statistics == "fresh":
            direct.execute(f"ANALYZE {schema}.job")

        def read() -> int:
            direct.execute("SELECT pg_stat_clear_snapshot()")
            (rows,) = direct.execute(
                "SELECT seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_user_tables"
                " WHERE schemaname = %s AND relname = 'job'",
                [schema],
            ).fetchone()
            return rows

        flush = "SELECT pg_stat_force_next_flush()" if direct.info.server_version >= 150_000 else "SELECT pg_sleep(1)"
        backend._store.database.run(flush, {})
        before = read()
        assert lease() == 10
        backend._store.database.run(flush, {})
        assert read() - before < 500


def test_leases_are_looked_up_one_by_one_in_a_table_that_was_empty_when_analyzed(new_backend, postgres_url, schema):
    """Else the leases of a call are compared with all rows: 1,000 with 10,000 took more than a second."""
    backend = new_backend()
    jobs = [NewJob(type="mail", queue=QUEUE) for _ in range(2_000)]
    backend.enqueue(jobs)
    assert backend.purge(QUEUE, JobState.READY, 2_000) == 2_000
    with psycopg.connect(postgres_url, autocommit=True) as direct:
        direct.execute(f"ALTER TABLE {schema}.job SET (autovacuum_enabled = off)")
        direct.execute(f"ANALYZE {schema}.job")
    backend.enqueue(jobs)
    texts = backend._store.statements
    one = {"returned": [1], "errors": [None], "delays": [0], "results": [None]}
    asked = {"now": None, "queues": QUEUE, "ids": "j", "tokens": new_token(), "duration": 1_000_000, **one}
    for text in (
        texts.lease.renew,
        texts.settle.complete,
        texts.settle.finish,
        texts.settle.retry,
        texts.settle.release,
    ):
        plan = "\n".join(line for (line,) in backend._store.database.run(f"EXPLAIN {text}", asked))
        assert plan.count("Index Scan using job_pkey") == 2
        assert "Join Filter" not in plan, plan
        assert "Hash Join" not in plan, plan
        assert "Merge Join" not in plan, plan
