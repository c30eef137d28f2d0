"""Records spoilt behind a store's back: what a store's test file brings, and what the tests do with it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pytest

from scheduler.backend import Backend
from scheduler.config import WorkerConfig
from scheduler.jobs import UNREADABLE, ErrorDetail, Job
from scheduler.leases import Completion, Failure, Lease
from scheduler.states import JobState
from scheduler.testing.harness import LONG, BackendHarness
from scheduler.testing.job_states import in_state
from scheduler.worker import Worker

STATES = (
    JobState.READY,
    JobState.SCHEDULED,
    JobState.RETRY_WAIT,
    JobState.LEASED,
    JobState.DEAD,
    JobState.SUCCEEDED,
)
FINISHED = (JobState.DEAD, JobState.SUCCEEDED)
SECRET = "sesame-5e5a3e"  # noqa: S105 - stands in payloads and metadata, and must not stand in an error
"""Part of every spoilt job's payload and metadata. An error of kind `Unreadable` never quotes what it cannot read."""

_PAGES = 20  # more than any list here has jobs
_PATIENCE = 30.0  # seconds for a worker to do what takes it milliseconds
SETTLES: Mapping[JobState, Callable[[Backend, list[Lease]], Sequence[Lease]]] = {
    JobState.SUCCEEDED: lambda backend, leases: backend.complete([Completion(lease=lease) for lease in leases]),
    JobState.RETRY_WAIT: lambda backend, leases: backend.retry([_failure(lease) for lease in leases]),
    JobState.DEAD: lambda backend, leases: backend.bury([_failure(lease) for lease in leases]),
    JobState.READY: lambda backend, leases: backend.release(leases),
    JobState.LEASED: lambda backend, leases: backend.renew(leases, LONG).refused,
}
"""Every call of a holder, by the state to which it leads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """
    One way to spoil a job's record.

    write: called with the backend, the queue and the id; changes the stored record by the store's own means. field: the
    name that `Job.unreadable` then holds; None = whichever. states: in which the record can be spoilt so; a subset of
    `STATES`. waits: the record is of a later format: the job is neither run nor buried, but waits for a newer release.
    repaired_by_requeue: a requeue resets the spoilt field, which repairs the job.
    """

    write: Callable[[Backend, str, str], object]
    field: str | None = None
    states: tuple[JobState, ...] = STATES
    waits: bool = False
    repaired_by_requeue: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IdDamage:
    """
    One way to give a job's record an id that no job can have, and perhaps a second fault.

    write: called with the backend, the queue and the job's id; changes the stored record by the store's own means.
    states: in which the record can be spoilt so.
    """

    write: Callable[[Backend, str, str], object]
    states: tuple[JobState, ...] = STATES


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDamage:
    """One way to spoil what a store keeps of a queue rather than of a job. write: called with the backend and queue."""

    write: Callable[[Backend, str], object]


def _failure(lease: Lease) -> Failure:
    return Failure(lease=lease, delay=LONG, error=ErrorDetail(kind="ValueError", message="in the test"))


def spoilt_job(harness: BackendHarness, damage: Damage, state: JobState) -> str:
    """The id of a job in *state* whose record is spoilt."""
    if state in (JobState.SCHEDULED, JobState.RETRY_WAIT, JobState.LEASED) and harness.clock is None:
        pytest.skip("the store takes no clock, and no test waits so long")
    job, _ = in_state(harness, state, payload=SECRET.encode(), metadata={"note": SECRET}, max_retries=5)
    damage.write(harness.backend, harness.queue, job.id)
    return job.id


def placed(harness: BackendHarness, state: JobState) -> str:
    """The id of a job that was brought into *state*; others may be in it."""
    if state is JobState.READY:
        return harness.add().id
    job, _ = in_state(harness, state, max_retries=5)
    return job.id


def walked(harness: BackendHarness, state: JobState) -> list[str]:
    """Return the ids in the list of *state*, read in pages of one job."""
    found: list[str] = []
    cursor = None
    for _ in range(_PAGES):
        page = harness.backend.list(harness.queue, state, cursor=cursor, limit=1)
        found += [job.id for job in page.jobs]
        cursor = page.cursor
        if cursor is None:
            return found
    raise AssertionError(f"the walk of {state} does not end; it began with {found[:_PAGES]}")


def until_it_would_run(harness: BackendHarness, state: JobState) -> None:
    """Let the time pass after which a job in *state* is ready, but for what cannot be read of it."""
    if harness.clock and state in (JobState.SCHEDULED, JobState.RETRY_WAIT, JobState.LEASED):
        harness.advance(1.1 * LONG)
    harness.recover()
    harness.promote()


def check_told(harness: BackendHarness, id: str, damage: Damage) -> Job:
    """`get` shows the job, says which field cannot be read, and quotes nothing of it."""
    job = harness.job(id)
    assert job.unreadable
    assert damage.field is None or damage.field in job.unreadable
    error = job.last_error
    assert error is not None
    assert error.kind == UNREADABLE
    assert all(field in error.message for field in job.unreadable)
    assert SECRET not in error.message + error.traceback
    return job


def run_by_worker(harness: BackendHarness, queues: tuple[str, ...], wanted: set[str]) -> set[str]:
    """The ids that a worker ran, which go on until all of *wanted* and one more of the last queue have run."""
    ran: set[str] = set()  # by handler threads; adding is atomic
    all_ran, one_more_ran = threading.Event(), threading.Event()

    def handler(job: Job, _ctx: object) -> None:
        ran.add(job.id)
        if wanted <= ran:
            all_ran.set()

    worker = Worker(
        harness.backend, WorkerConfig(queues=queues, concurrency=2, poll_interval=0.05, recover_interval=0.1)
    )
    worker.handle("contract", handler)
    worker.handle("one more", lambda _job, _ctx: one_more_ran.set())
    with worker:
        assert all_ran.wait(_PATIENCE), f"of the healthy jobs {wanted - ran} were not run"
        harness.enqueue(harness.new(type="one more", queue=queues[-1]))
        assert one_more_ran.wait(_PATIENCE), "the worker runs nothing more"
    return ran
