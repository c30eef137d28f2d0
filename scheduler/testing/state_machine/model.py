"""
A model of the contract in a plain dict, which a store's results are compared with.

If the contract leaves a choice (which ready jobs a lease takes, which jobs a limited purge deletes), the model checks
that the store's choice is allowed, and follows it. It does not depend on any store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from scheduler.jobs import LEASE_EXPIRED, NewJob
from scheduler.leases import Enqueued, Failure, Lease, MoveAnswer
from scheduler.queues import Retention
from scheduler.states import MOVES, TERMINAL, JobState
from scheduler.testing.state_machine.model_job import WAITING, ModelJob, due, fresh, record_error, settled

Key = tuple[str, str]  # queue and id


class Model:
    """The jobs that a store must hold if it keeps the contract."""

    def __init__(self, retention: Retention, versions: Mapping[str, int]) -> None:
        self.retention = retention
        self.rows: dict[Key, ModelJob] = {}
        self.paused: set[str] = set()
        self.versions = {queue: [version] for queue, version in versions.items()}  # ascending, the last one active

    # The effects of calls. `now` is the time of the call.

    def enqueue(self, new: NewJob, result: Enqueued, now: datetime) -> None:
        """Apply an enqueue and check its result."""
        row = self.rows.get((new.queue, new.id))
        if row is None:
            assert result.is_new, "a new job was reported as a duplicate"
            job = fresh(new, self.active(new.queue), result.job.partition, now)
            row = self.rows[new.queue, new.id] = ModelJob(job=job, new=new)
        else:
            assert result.is_new == (row.new.nonce == new.nonce), (
                "is_new must be true only if the same NewJob is enqueued again"
            )
        assert settled(result.job, now) == settled(row.job, now), "the result differs from the stored job"

    def promote(self, now: datetime) -> None:
        """Make all due jobs ready."""
        for row in self.rows.values():
            if row.job.state in WAITING and due(row.job) <= now:
                self._move(row, JobState.READY, now)

    def lease(self, leases: Sequence[Lease], owner: str, expires_at: datetime, now: datetime) -> None:
        """Apply and check the result of one lease call."""
        for lease in leases:
            row = self.rows.get((lease.job.queue, lease.job.id))
            assert row is not None, "a job was leased that is not stored"
            assert row.job.state is JobState.READY, f"a job was leased that is {row.job.state}"
            assert row.job.queue not in self.paused, "a job of a paused queue was leased"
            self._move(row, JobState.LEASED, now)
            row.job = replace(row.job, attempts=row.job.attempts + 1, lease_owner=owner, lease_expires_at=expires_at)
            row.token = lease.token
            assert lease.job == row.job, "the lease's job differs from the stored one"
            assert lease.expires_at == expires_at

    def renew(self, leases: Iterable[Lease], expires_at: datetime) -> Sequence[Lease]:
        """Renew *leases* and return those that are not held."""
        refused = []
        for lease in leases:
            row = self.holder(lease)
            if row is None:
                refused.append(lease)
            else:
                row.job = replace(row.job, lease_expires_at=expires_at)
        return refused

    def complete(self, lease: Lease, result: bytes | None, now: datetime) -> bool:
        """Complete the job. Return False if *lease* is not held."""
        row = self.holder(lease)
        if row is not None:
            self._move(row, JobState.SUCCEEDED, now)
            row.job = replace(row.job, result=result)
        return row is not None

    def fail(self, failure: Failure, state: JobState, now: datetime) -> bool:
        """Retry or bury the job, by *state*. Return False if the lease is not held."""
        row = self.holder(failure.lease)
        if row is None:
            return False
        if failure.error is not None:
            record_error(row, failure.error, now)
        self._move(row, state, now)
        due_at = now + timedelta(seconds=failure.delay) if state is JobState.RETRY_WAIT else None
        row.job = replace(row.job, due_at=due_at, attempts=row.job.attempts - (not failure.counted))
        return True

    def release(self, lease: Lease, now: datetime) -> bool:
        """Release the job. Return False if *lease* is not held."""
        row = self.holder(lease)
        if row is not None:
            self._move(row, JobState.READY, now)
            row.ready_at = None
            row.job = replace(row.job, attempts=row.job.attempts - 1)
        return row is not None

    def recover(self, row: ModelJob, now: datetime) -> JobState:
        """Recover the job and return its new state."""
        record_error(row, LEASE_EXPIRED, now)
        state = JobState.DEAD if row.job.attempts > row.job.max_retries else JobState.READY
        self._move(row, state, now)
        row.job = replace(row.job, crashes=row.job.crashes + 1)
        return state

    def ask(self, move: str, queue: str, id: str, now: datetime) -> MoveAnswer:
        """Cancel or requeue a job, by *move*, and return the expected result."""
        row = self.rows.get((queue, id))
        if row is None:
            return MoveAnswer(id=id, moved=False, state=None)
        if row.job.state not in MOVES[move].sources:
            return MoveAnswer(id=id, moved=False, state=row.job.state)
        (target,) = MOVES[move].targets
        self._move(row, target, now)
        if move == "requeue":
            row.job = replace(row.job, attempts=0, crashes=0)
        return MoveAnswer(id=id, moved=True, state=target)

    def trim(self, now: datetime) -> None:
        """Delete the jobs whose retention has ended."""
        for key, row in [*self.rows.items()]:
            job = row.job
            if job.finished_at and job.finished_at + timedelta(seconds=self.retention.seconds(job.state)) <= now:
                del self.rows[key]

    # Reads

    def active(self, queue: str) -> int:
        """Return the version that takes new jobs."""
        return self.versions[queue][-1]

    def holder(self, lease: Lease) -> ModelJob | None:
        """Return the row that *lease* holds, or None."""
        row = self.rows.get((lease.job.queue, lease.job.id))
        return row if row is not None and row.token == lease.token else None

    def among(self, queues: Iterable[str], *states: JobState) -> Sequence[ModelJob]:
        """Return the rows of *queues* in *states*."""
        names = set(queues)
        return [row for row in self.rows.values() if row.job.queue in names and row.job.state in states]

    def leasable(self, queues: Iterable[str]) -> Sequence[ModelJob]:
        """Return the ready jobs of those *queues* that are not paused."""
        return self.among(set(queues) - self.paused, JobState.READY)

    def _move(self, row: ModelJob, state: JobState, now: datetime) -> None:
        row.job = replace(
            row.job,
            state=state,
            due_at=None,
            lease_owner=None,
            lease_expires_at=None,
            finished_at=now if state in TERMINAL else None,
        )
        row.token = None
        row.ready_at = now if state is JobState.READY else None
        if state in TERMINAL and not self.retention.seconds(state):
            del self.rows[row.job.queue, row.job.id]
