"""How to bring a job into each state: one sequence of moves for each."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.identity import new_token
from scheduler.jobs import ErrorDetail, Job, NewJob
from scheduler.leases import Completion, Failure, Lease
from scheduler.states import JobState
from scheduler.testing.harness import LONG, BackendHarness

ONCE = ErrorDetail(kind="ValueError", message="once", traceback="in the test")


def in_state(
    harness: BackendHarness, state: JobState, new: NewJob | None = None, **fields: object
) -> tuple[Job, Lease]:
    """
    A new job (*new*, or one with *fields*) brought into *state*, and the lease that led there.

    Where none did, the lease is one that nobody ever held. No other job of its queue may be ready, and the harness must
    keep finished jobs.
    """
    waits = state in (JobState.SCHEDULED, JobState.CANCELLED)
    new = new or harness.new(**({"delay": LONG} if waits else {}), **fields)
    (enqueued,) = harness.enqueue(new)
    if waits:
        lease = Lease(job=enqueued.job, token=new_token(), expires_at=enqueued.job.created_at)
    else:
        lease = harness.lease_one(queue=new.queue)
        assert lease.job.id == new.id, "another job was ready"
    refused = _leave(harness, lease, state)
    assert not refused, f"the holder was refused on the way to {state}"
    stored = harness.job(new.id, queue=new.queue)
    assert stored.state is state
    return stored, lease


def _leave(harness: BackendHarness, lease: Lease, state: JobState) -> Sequence[Lease]:
    if state is JobState.CANCELLED:
        harness.backend.cancel(lease.job.queue, [lease.job.id])
    if state is JobState.READY:
        return harness.backend.release([lease])
    if state is JobState.RETRY_WAIT:
        return harness.backend.retry([Failure(lease=lease, delay=LONG, error=ONCE)])
    if state is JobState.SUCCEEDED:
        return harness.backend.complete([Completion(lease=lease, result=b"done")])
    if state is JobState.DEAD:
        return harness.backend.bury([Failure(lease=lease, error=ONCE)])
    return ()
