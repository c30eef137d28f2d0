"""Long storms: processes and a server are killed, versions change. No job is lost, none is completed twice."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import closing, suppress

import pytest

from scheduler.errors import BackendUnavailable
from scheduler.states import LIVE, JobState
from storms.crew import Crew, lines
from storms.versions import storm

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_200)]

JOBS = 50_000
PRODUCERS, WORKERS = 4, 3
WAIT_TIMEOUT = 900.0  # seconds, on a loaded machine


def test_no_version_change_strands_a_job_while_workers_are_killed_and_producers_sleep(
    new_redis_server, new_backend, redis_prefix
):
    """Guarantee 25: fifty changes, and fifty workers killed."""
    url = f"{new_redis_server(persistence='none').url}?prefix={redis_prefix}"
    outcome = storm(new_backend(url), url, "storm", rounds=50)
    assert outcome.lost == 0
    assert outcome.rounds == outcome.kills == 50
    assert outcome.refusals > 0  # each named what was still there


def test_every_acknowledged_job_succeeds_once_while_workers_and_the_server_are_killed(
    new_redis_server, new_backend, redis_prefix, tmp_path
):
    """Guarantees 8 and 22: the server syncs each write; three times it is killed. One worker is killed every second."""
    server = new_redis_server(persistence="always")
    url = f"{server.url}?prefix={redis_prefix}&retain_succeeded=86400"
    backend = new_backend(url)
    restarts = [JOBS // 4, JOBS // 2, JOBS * 3 // 4]  # how many jobs are done when the server is killed
    with closing(Crew(url, "ledger", tmp_path, seed=1)) as crew:
        for _ in range(WORKERS):
            crew.add_worker()
        for _ in range(PRODUCERS):
            crew.add_producer(JOBS // PRODUCERS)
        deadline = time.monotonic() + WAIT_TIMEOUT
        while True:
            assert time.monotonic() < deadline, "the jobs are not done in time"
            time.sleep(1.0)  # the pace of the kills
            crew.kill_a_worker()
            with suppress(BackendUnavailable):
                rows = backend.stats(["ledger"])
                done = sum(row.counts[JobState.SUCCEEDED] for row in rows)
                if restarts and done >= restarts[0]:
                    restarts.pop(0)
                    server.kill()
                    server.start()
                produced = all(producer.poll() is not None for producer in crew.producers)
                if produced and not any(row.counts[state] for row in rows for state in LIVE):
                    break
        crew.finish(crew.producers, 1.0)
        crew.finish(crew.workers, 60.0)
    assert not restarts
    acknowledged = lines(tmp_path, "acknowledged")
    assert len(acknowledged) == len(set(acknowledged)) == JOBS
    for start in range(0, JOBS, 1_000):
        some = acknowledged[start : start + 1_000]
        found = backend.get("ledger", some)
        assert Counter(found[one].state for one in some) == {JobState.SUCCEEDED: len(some)}
    completions = Counter(lines(tmp_path, "completed"))
    assert not [pair for pair, times in completions.items() if times > 1]
