"""Long storms: processes on one file are killed. No acknowledged job is lost, none is completed twice."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from contextlib import closing, suppress

import pytest

from scheduler.errors import BackendUnavailable
from scheduler.states import LIVE, JobState
from scheduler_backends.sqlite import SqliteBackend
from storms.crew import Crew, lines

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_200)]

PRODUCERS, WORKERS = 2, 4
WAIT_TIMEOUT = 900.0  # seconds, on a loaded machine


@pytest.mark.parametrize("kills", [True, False], ids=["killed", "left alone"])
def test_every_acknowledged_job_succeeds_once_and_the_file_stays_sound(tmp_path, kills):
    """Left alone, each process gets its share: within a factor of three."""
    jobs = 30_000
    path = tmp_path / "jobs.db"
    url = f"sqlite:///{path}?retain_succeeded=86400"
    with closing(SqliteBackend(path)) as backend, closing(Crew(url, "ledger", tmp_path, seed=1)) as crew:
        for _ in range(WORKERS):
            crew.add_worker()
        for _ in range(PRODUCERS):
            crew.add_producer(jobs // PRODUCERS)
        deadline = time.monotonic() + WAIT_TIMEOUT
        while True:
            assert time.monotonic() < deadline, "the jobs are not done in time"
            time.sleep(1.0)  # the pace of the kills
            if kills:
                crew.kill_a_worker()
            with suppress(BackendUnavailable):
                (row,) = backend.stats(["ledger"])
                produced = all(producer.poll() is not None for producer in crew.producers)
                if produced and not any(row.counts[state] for state in LIVE):
                    break
        crew.finish(crew.producers, 1.0)
        crew.finish(crew.workers, 60.0)
        acknowledged = lines(tmp_path, "acknowledged")
        assert len(acknowledged) == len(set(acknowledged)) == jobs
        found = backend.get("ledger", acknowledged)
        assert Counter(job.state for job in found.values()) == {JobState.SUCCEEDED: jobs}
        assert set(Counter(lines(tmp_path, "completed")).values()) == {1}
    if not kills:
        shares = [len(shared.read_text().splitlines()) for shared in tmp_path.glob("*.completed")]
        assert len(shares) == WORKERS
        assert max(shares) <= 3 * min(shares), shares
    with closing(sqlite3.connect(path)) as direct:
        assert direct.execute("PRAGMA integrity_check").fetchone() == ("ok",)
