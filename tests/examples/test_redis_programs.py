"""The Redis examples, started as a person would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler.identity import new_token
from scheduler.jobs import NewJob
from scheduler.leases import Completion
from scheduler_backends.redis import RedisBackend, RedisConfig

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def run():
    """Run a program to its end and return its exit code and output."""

    def run_to_end(name: str, *arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, EXAMPLES / name, *arguments],
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
            env=os.environ | {"PYTHONWARNINGS": "error"},
        )
        return done.returncode, done.stdout + done.stderr

    return run_to_end


def test_the_demo_runs_every_mail_and_shows_where_it_lay(run, redis_url, redis_prefix):
    code, output = run("redis_demo.py", "--url", redis_url, "--queue", redis_prefix, "--mails", "4")
    assert code == 0, output
    for number in range(1, 5):
        assert f"enqueued mail-{number}" in output
        assert f"to user{number}@example.org" in output
    assert output.count("version 1, partition ") == 8
    assert "ms late" in output


def test_the_demo_says_so_where_no_server_is(run):
    code, output = run("redis_demo.py", "--url", "redis://127.0.0.1:1")
    assert code == 1
    assert "Is a Redis or Valkey running there?" in output
    assert "Traceback" not in output


def test_a_queue_is_given_more_partitions_step_by_step(run, redis_url, redis_prefix):
    where = ("--url", redis_url, "--prefix", redis_prefix, "--queue", "default")
    assert "version 1: 8 partitions, active" in run("redis_migration.py", "topology", *where)[1]
    code, output = run("redis_migration.py", "promote", *where, "--version", "2", "--partitions", "16")
    assert code == 0, output
    assert "version 1: 8 partitions, draining" in output
    assert "version 2: 16 partitions, active" in output
    code, output = run("redis_migration.py", "complete", *where, "--version", "1")
    assert code == 0, output
    assert "version 1" not in output
    code, output = run("redis_migration.py", "complete", *where, "--version", "2")
    assert code == 1
    assert "active" in output


def test_the_migration_names_what_is_missing_or_wrong(run):
    assert run("redis_migration.py", "promote")[0] == 2
    code, output = run("redis_migration.py", "topology", "--url", "memcached://x")
    assert code == 2
    assert "url" in output
    code, output = run("redis_migration.py", "topology", "--url", "redis://127.0.0.1:1")
    assert code == 1
    assert "Traceback" not in output


def test_completing_waits_while_the_version_drains_and_shows_how_far_it_is(run, redis_url, redis_prefix):
    backend = RedisBackend(redis_url, RedisConfig(prefix=redis_prefix))
    backend.enqueue([NewJob(type="t") for _ in range(3)])
    backend.promote_queue_version("default", 2, 2)
    where = ("--url", redis_url, "--prefix", redis_prefix, "--version", "1")
    code, output = run("redis_migration.py", "complete", *where, "--timeout", "0.5")
    assert code == 1
    assert "still holds jobs: 3 ready" in output
    leases = backend.lease(["default"], token=new_token(), worker_id="w", duration=60.0, limit=10)
    backend.complete([Completion(lease=lease) for lease in leases])
    code, output = run("redis_migration.py", "complete", *where)
    assert code == 0, output
    assert "version 2: 2 partitions, active" in output
    backend.close()
