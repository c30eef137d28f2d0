"""Brings a job into any state by a sequence of moves."""

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
    Enqueue a job, bring it into *state*, and return it with the lease by which it got there.

    If no lease is needed (scheduled and cancelled jobs), the returned lease is one that was never given out. No other
    job of the queue may be ready, and the harness must keep finished jobs.

    new: the job to enqueue; None = a new one with *fields*.
    """
    waits = state in (JobState.SCHEDULED, JobState.CANCELLED)
    new = new or harness.new(**({"delay": LONG} if waits else {}), **fields)
    (enqueued,) = harness.enqueue(new)
    if waits:
        lease = Lease(job=enqueued.job, token=new_token(), expires_at=enqueued.job.created_at)
    else:
        lease = harness.lease_one(queue=new.queue)
        assert lease.job.id == new.id, "another job of the queue was ready"
    refused = _leave(harness, lease, state)
    assert not refused, f"the lease was refused on the way to {state}"
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
