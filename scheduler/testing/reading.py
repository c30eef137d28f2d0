"""Short forms of the reads of a backend, for the tests of the suite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scheduler.backend import Backend
from scheduler.jobs import Job
from scheduler.queues import QueueStats
from scheduler.states import JobState

TURNS = 1_000
"""Rounds after which a loop that should have ended fails."""


class Reading:
    """Reads of one backend. They read `queue` if no queue is named."""

    backend: Backend
    queue: str

    def find(self, id: str, *, queue: str = "") -> Job | None:
        """Return the stored job, or None if there is none."""
        return self.backend.get(queue or self.queue, [id]).get(id)

    def job(self, id: str, *, queue: str = "") -> Job:
        """Return the stored job, which must exist."""
        job = self.find(id, queue=queue)
        assert job is not None, f"job {id} is gone"
        return job

    def state(self, id: str, *, queue: str = "") -> JobState | None:
        """Return the state of the job, or None if there is none."""
        job = self.find(id, queue=queue)
        return job.state if job else None

    def listed(self, state: JobState, *, queue: str = "", limit: int = 100) -> Sequence[Job]:
        """Return all jobs in *state*, read in pages of *limit*."""
        jobs: list[Job] = []
        cursor: str | None = None
        for _ in range(TURNS):
            page = self.backend.list(queue or self.queue, state, cursor=cursor, limit=limit)
            assert len(page.jobs) <= limit
            jobs.extend(page.jobs)
            cursor = page.cursor
            if cursor is None:
                return jobs
        raise AssertionError("the list does not end")

    def counts(self, queue: str = "") -> Mapping[JobState, int]:
        """Return the number of jobs in each state, over all versions of the queue."""
        rows = self.backend.stats([queue or self.queue])
        return {state: sum(row.counts[state] for row in rows) for state in JobState}

    def numbers(self, queue: str = "") -> QueueStats:
        """Return the statistics of a queue that has only one version."""
        (row,) = self.backend.stats([queue or self.queue])
        return row
