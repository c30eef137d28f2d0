"""Moments are the same whatever zone the database lives in."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import psycopg
import pytest
from psycopg import sql

from scheduler.identity import new_token
from scheduler.jobs import NewJob
from scheduler.states import JobState

QUEUE = "zones"


@pytest.fixture
def in_new_york(postgres_url) -> Iterator[None]:
    """The database lives in New York: every connection that is made meanwhile gets this zone."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        name = sql.Identifier(connection.info.dbname)
        connection.execute(sql.SQL("ALTER DATABASE {} SET timezone = 'America/New_York'").format(name))
        yield
        connection.execute(sql.SQL("ALTER DATABASE {} RESET timezone").format(name))


@pytest.mark.every_flavour
@pytest.mark.usefixtures("in_new_york")
def test_the_zone_of_the_database_changes_nothing(new_backend, postgres_url):
    """Guarantee 17: one instant written in three zones, one that a change to summer time skips, now, and a delay."""
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SHOW timezone").fetchone() == ("America/New_York",)
    backend = new_backend()
    instant = datetime(2040, 6, 1, 12, 0, 0, 123_456, tzinfo=UTC)
    skipped = datetime(2040, 3, 11, 2, 30, tzinfo=UTC)
    moments = [*(instant.astimezone(timezone(timedelta(hours=hours))) for hours in (0, -4, 9.5)), skipped]
    before = datetime.now(UTC) - timedelta(minutes=5)
    jobs = [answer.job for answer in backend.enqueue([NewJob(type="t", queue=QUEUE, run_at=at) for at in moments])]
    got = backend.get(QUEUE, [job.id for job in jobs])
    assert [got[job.id].run_at for job in jobs] == [instant] * 3 + [skipped]
    assert {got[job.id].run_at.utcoffset() for job in jobs} == {timedelta()}
    backend.enqueue([NewJob(type="t", queue=QUEUE), NewJob(type="t", queue=QUEUE, delay=3_600.0)])
    (lease,) = backend.lease([QUEUE], token=new_token(), worker_id="w", duration=60.0, limit=10)
    assert before < lease.job.created_at < lease.expires_at < before + timedelta(minutes=10)
    assert backend.stats([QUEUE])[0].counts[JobState.SCHEDULED] == 5
    next_due = backend.promote_due([QUEUE], 100).next_due
    assert next_due is not None
    assert 3_000.0 < next_due <= 3_600.0
