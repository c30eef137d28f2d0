"""Every baseline runs on its store and leaves nothing behind."""

import sqlite3

import pytest

from benchmarks import baselines, baselines_redis, baselines_sql
from benchmarks.benchmark_store import BenchmarkStore
from benchmarks.counters import requests


def test_submit():
    assert baselines.submit(count=100) > 0


@pytest.mark.parametrize(
    ("baseline", "size"),
    [("f1", {"rounds": 2}), ("lpush", {"rounds": 2}), ("ping", {"count": 5}), ("blpop", {"count": 5})],
)
def test_a_baseline_on_redis(redis_url, baseline, size):
    redis = pytest.importorskip("redis")
    assert getattr(baselines_redis, baseline)(f"{redis_url}?partitions=3", **size) > 0
    with redis.Redis.from_url(redis_url) as client:
        assert not list(client.scan_iter("bench-baseline-*"))


@pytest.mark.parametrize(
    ("baseline", "size"),
    [
        ("insert_commit", {"count": 5}),
        ("select_and_insert", {"count": 5}),
        ("skip_locked", {"rounds": 2}),
        ("copy", {"count": 5}),
    ],
)
def test_a_baseline_on_postgres(postgres_url, baseline, size):
    with BenchmarkStore(postgres_url, size=1) as bench:  # makes the tables
        assert getattr(baselines_sql, baseline)(bench.url, **size) > 0
        with baselines_sql.postgres(bench.url) as connection:
            assert connection.execute("SELECT count(*) FROM scheduler.job").fetchone() == (0,)
            assert connection.execute("SELECT 1 FROM pg_tables WHERE tablename LIKE 'bench%'").fetchall() == []


@pytest.mark.parametrize("baseline", ["insert_commit", "select_and_insert"])
def test_a_baseline_on_sqlite(tmp_path, baseline):
    url = f"sqlite:///{tmp_path}/jobs.db?prefix=other_&synchronous=normal"
    with BenchmarkStore(url, size=1) as bench:
        assert getattr(baselines_sql, baseline)(bench.url, count=5) > 0
    with sqlite3.connect(tmp_path / "jobs.db") as connection:
        assert connection.execute("SELECT count(*) FROM other_job").fetchone() == (0,)
    connection.close()


def test_a_baseline_is_chosen_by_the_store(tmp_path):
    with BenchmarkStore("memory", size=1) as memory, BenchmarkStore(f"sqlite:///{tmp_path}/jobs.db", size=1) as sqlite:
        assert memory.baseline(memory="submit", sqlite="insert_commit").name == "submit"
        assert sqlite.baseline(memory="submit", sqlite="insert_commit").name == "insert_commit"
        assert sqlite.baseline(redis="ping") is None


def test_round_trips_to_a_server_are_counted(redis_url):
    pytest.importorskip("redis")
    with requests(redis_url) as count:
        before = count()
        baselines_redis.ping(redis_url, count=20)
        assert count() >= before + 20


def test_what_a_benchmark_leaves_in_the_store_is_deleted(redis_url):
    pytest.importorskip("redis")
    with BenchmarkStore(redis_url, size=1) as bench:
        queue = bench.new_queue()
        bench.fill(bench.backend, queue, 5, delay=60)
        bench.fill(bench.backend, queue, 5)
    with BenchmarkStore(redis_url, size=1) as bench:
        assert not any(stats.counts[state] for stats in bench.backend.stats([queue]) for state in stats.counts)
