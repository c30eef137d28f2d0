"""Every floor runs on its store and leaves nothing behind."""

import sqlite3

import pytest

from benchmarks import floors, floors_redis, floors_sql
from benchmarks.counters import requests
from benchmarks.stage import Stage


def test_submit():
    assert floors.submit(count=100) > 0


@pytest.mark.parametrize(
    ("floor", "size"),
    [("f1", {"rounds": 2}), ("lpush", {"rounds": 2}), ("ping", {"count": 5}), ("blpop", {"count": 5})],
)
def test_a_floor_on_redis(redis_url, floor, size):
    redis = pytest.importorskip("redis")
    assert getattr(floors_redis, floor)(f"{redis_url}?partitions=3", **size) > 0
    with redis.Redis.from_url(redis_url) as client:
        assert not list(client.scan_iter("bench-floor-*"))


@pytest.mark.parametrize(
    ("floor", "size"),
    [
        ("insert_commit", {"count": 5}),
        ("select_and_insert", {"count": 5}),
        ("skip_locked", {"rounds": 2}),
        ("copy", {"count": 5}),
    ],
)
def test_a_floor_on_postgres(postgres_url, floor, size):
    with Stage(postgres_url, size=1) as stage:  # makes the tables
        assert getattr(floors_sql, floor)(stage.url, **size) > 0
        with floors_sql.postgres(stage.url) as connection:
            assert connection.execute("SELECT count(*) FROM scheduler.job").fetchone() == (0,)
            assert connection.execute("SELECT 1 FROM pg_tables WHERE tablename LIKE 'bench%'").fetchall() == []


@pytest.mark.parametrize("floor", ["insert_commit", "select_and_insert"])
def test_a_floor_on_sqlite(tmp_path, floor):
    url = f"sqlite:///{tmp_path}/jobs.db?prefix=other_&synchronous=normal"
    with Stage(url, size=1) as stage:
        assert getattr(floors_sql, floor)(stage.url, count=5) > 0
    with sqlite3.connect(tmp_path / "jobs.db") as connection:
        assert connection.execute("SELECT count(*) FROM other_job").fetchone() == (0,)
    connection.close()


def test_a_floor_is_chosen_by_the_store(tmp_path):
    with Stage("memory", size=1) as memory, Stage(f"sqlite:///{tmp_path}/jobs.db", size=1) as sqlite:
        assert memory.floor(memory="submit", sqlite="insert_commit").name == "submit"
        assert sqlite.floor(memory="submit", sqlite="insert_commit").name == "insert_commit"
        assert sqlite.floor(redis="ping") is None


def test_round_trips_to_a_server_are_counted(redis_url):
    pytest.importorskip("redis")
    with requests(redis_url) as count:
        before = count()
        floors_redis.ping(redis_url, count=20)
        assert count() >= before + 20


def test_what_a_benchmark_leaves_in_the_store_is_deleted(redis_url):
    pytest.importorskip("redis")
    with Stage(redis_url, size=1) as stage:
        queue = stage.new_queue()
        stage.fill(stage.backend, queue, 5, delay=60)
        stage.fill(stage.backend, queue, 5)
    with Stage(redis_url, size=1) as stage:
        assert not any(stats.counts[state] for stats in stage.backend.stats([queue]) for state in stats.counts)
