"""The reads of the contract made short, for the tests of the suite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scheduler.backend import Backend
from scheduler.jobs import Job
from scheduler.queues import QueueStats
from scheduler.states import JobState

TURNS = 1_000
"""A loop that should end long before ends here, as a failure."""


class Reading:
    """Reads of one backend; where no queue is named, of `queue`."""

    backend: Backend
    queue: str

    def find(self, id: str, *, queue: str = "") -> Job | None:
        """The stored job, None = not there."""
        return self.backend.get(queue or self.queue, [id]).get(id)

    def job(self, id: str, *, queue: str = "") -> Job:
        """The stored job, which must be there."""
        job = self.find(id, queue=queue)
        assert job is not None, f"job {id} is gone"
        return job

    def state(self, id: str, *, queue: str = "") -> JobState | None:
        """The state of the job; None = there is none."""
        job = self.find(id, queue=queue)
        return job.state if job else None

    def listed(self, state: JobState, *, queue: str = "", limit: int = 100) -> Sequence[Job]:
        """Every job in *state*, by a walk over the pages of its list."""
        jobs: list[Job] = []
        cursor: str | None = None
        for _ in range(TURNS):
            page = self.backend.list(queue or self.queue, state, cursor=cursor, limit=limit)
            assert len(page.jobs) <= limit
            jobs.extend(page.jobs)
            cursor = page.cursor
            if cursor is None:
                return jobs
        raise AssertionError("the walk over a list does not end")

    def counts(self, queue: str = "") -> Mapping[JobState, int]:
        """How many jobs are in each state, over all versions of the queue."""
        rows = self.backend.stats([queue or self.queue])
        return {state: sum(row.counts[state] for row in rows) for state in JobState}

    def numbers(self, queue: str = "") -> QueueStats:
        """The statistics of a queue of one version."""
        (row,) = self.backend.stats([queue or self.queue])
        return row
