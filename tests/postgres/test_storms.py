"""Long storms: workers and the server are killed. No acknowledged job is lost, none is completed twice."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import closing, suppress

import pytest

from scheduler.errors import BackendUnavailable
from scheduler.states import LIVE, JobState
from storms.crew import Crew, lines

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_200)]

JOBS = 30_000
PRODUCERS, WORKERS = 3, 3
WAIT_TIMEOUT = 900.0  # seconds, on a loaded machine


@pytest.mark.every_flavour
def test_every_acknowledged_job_succeeds_once_while_workers_and_the_server_are_killed(
    new_postgres_server, tmp_path, new_backend, schema
):
    """Guarantees 8 and 22: the server is stopped "immediate", three times. One worker is killed every second."""
    server = new_postgres_server(fsync=True)
    url = f"{server.url}?schema={schema}&retain_succeeded=86400&timeout=5"
    backend = new_backend(server.url)
    backend.migrate()
    restarts = [JOBS // 4, JOBS // 2, JOBS * 3 // 4]  # how many completions are written down when the server is killed
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
            if restarts and len(lines(tmp_path, "completed")) >= restarts[0]:
                restarts.pop(0)
                server.crash()
                server.start()
            with suppress(BackendUnavailable):
                (row,) = backend.stats(["ledger"])
                produced = all(producer.poll() is not None for producer in crew.producers)
                if produced and not any(row.counts[state] for state in LIVE):
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
    assert set(Counter(lines(tmp_path, "completed")).values()) == {1}
