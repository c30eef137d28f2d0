"""How a job comes to stand in each state: one way there by lawful moves."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.identity import new_token
from scheduler.jobs import ErrorDetail, Job, NewJob
from scheduler.leases import Completion, Failure, Lease
from scheduler.states import JobState
from scheduler.testing.rig import LONG, Rig

ONCE = ErrorDetail(kind="ValueError", message="once", traceback="in the test")


def in_state(rig: Rig, state: JobState, new: NewJob | None = None, **fields: object) -> tuple[Job, Lease]:
    """
    A new job (*new*, or one with *fields*) brought into *state*, and the lease that led there.

    Where none did, the lease is one that nobody ever held. No other job of its queue may be ready, and the rig must
    keep finished jobs.
    """
    waits = state in (JobState.SCHEDULED, JobState.CANCELLED)
    new = new or rig.new(**({"delay": LONG} if waits else {}), **fields)
    (enqueued,) = rig.enqueue(new)
    if waits:
        lease = Lease(job=enqueued.job, token=new_token(), expires_at=enqueued.job.created_at)
    else:
        lease = rig.lease_one(queue=new.queue)
        assert lease.job.id == new.id, "another job was ready"
    refused = _leave(rig, lease, state)
    assert not refused, f"the holder was refused on the way to {state}"
    stored = rig.job(new.id, queue=new.queue)
    assert stored.state is state
    return stored, lease


def _leave(rig: Rig, lease: Lease, state: JobState) -> Sequence[Lease]:
    if state is JobState.CANCELLED:
        rig.backend.cancel(lease.job.queue, [lease.job.id])
    if state is JobState.READY:
        return rig.backend.release([lease])
    if state is JobState.RETRY_WAIT:
        return rig.backend.retry([Failure(lease=lease, delay=LONG, error=ONCE)])
    if state is JobState.SUCCEEDED:
        return rig.backend.complete([Completion(lease=lease, result=b"done")])
    if state is JobState.DEAD:
        return rig.backend.bury([Failure(lease=lease, error=ONCE)])
    return ()
