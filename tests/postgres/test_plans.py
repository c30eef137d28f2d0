"""What a lease looks at does not grow with the jobs that it does not move."""

from __future__ import annotations

from typing import Final

import psycopg
import pytest

from scheduler.identity import new_token
from scheduler.jobs import NewJob, Priority
from scheduler_backends.sql.states import CANCELLED, DEAD, SUCCEEDED

QUEUE: Final = "plans"
FINISHED: Final = (SUCCEEDED, DEAD, CANCELLED)
MANY: Final = 20_000


def pages_of_a_lease(backend, postgres_url) -> int:
    """How many pages of tables and indexes the server touches to lease ten jobs."""
    statement = backend._leasing._statements.lease(16)
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
