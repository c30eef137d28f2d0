"""
What is true of every store at every moment, whatever was done to it: checked after each test of the suite.

The check ends by emptying the queues, which is a test too, and leaves nothing behind on a shared store.
"""

from __future__ import annotations

from scheduler.jobs import Job
from scheduler.states import TERMINAL, JobState
from scheduler.testing.rig import TURNS, Rig

_WAITING = frozenset({JobState.SCHEDULED, JobState.RETRY_WAIT})
_BRIEF = 0.05  # seconds that a lease is cut to where time is real


def check_invariants(rig: Rig) -> None:
    """Each id of each queue of *rig* is in exactly one state, and recovery finds every lease."""
    for queue in rig.queues:
        check_reads_agree(rig, queue)
    _check_recovery_finds_all(rig)
    for queue in rig.queues:
        _check_purge_empties(rig, queue)


def check_reads_agree(rig: Rig, queue: str) -> None:
    """List, get and stats tell the same of *queue*, and each job's fields suit its state."""
    listed = {state: rig.listed(state, queue=queue) for state in JobState}
    ids = [job.id for jobs in listed.values() for job in jobs]
    assert len(ids) == len(set(ids)), f"an id stands in two states, or twice in one, of {queue!r}"
    counts = rig.counts(queue)
    assert counts == {state: len(jobs) for state, jobs in listed.items()}, "stats and list differ"
    got = rig.backend.get(queue, ids)
    for state, jobs in listed.items():
        for job in jobs:
            assert job.state is state, f"a job that is {job.state} is listed as {state}"
            assert got.get(job.id) == job, "get and list differ"
            check_fields(job)


def check_fields(job: Job) -> None:
    """The fields that belong to a state are there in it, and in no other."""
    assert (job.due_at is not None) == (job.state in _WAITING), f"due_at of a job that is {job.state}"
    assert (job.lease_owner is not None) == (job.state is JobState.LEASED), f"lease_owner of a {job.state} job"
    assert (job.lease_expires_at is not None) == (job.state is JobState.LEASED), f"lease expiry of a {job.state} job"
    assert (job.finished_at is not None) == (job.state in TERMINAL), f"finished_at of a job that is {job.state}"
    assert job.result is None or job.state is JobState.SUCCEEDED, f"result of a job that is {job.state}"
    assert job.attempts >= (1 if job.state is JobState.LEASED else 0)
    assert job.crashes >= 0
    assert len(job.errors) <= 10


def _check_recovery_finds_all(rig: Rig) -> None:
    leased = {(queue, job.id): job for queue in rig.queues for job in rig.listed(JobState.LEASED, queue=queue)}
    if not leased:
        return
    if rig.clock:
        last = max(job.lease_expires_at for job in leased.values() if job.lease_expires_at)
        rig.clock.set(max(last, rig.clock.now()))
        rig.advance(0.001)
    else:
        rig.backend.renew([*rig.leases], _BRIEF)
        rig.advance(_BRIEF)
    ready, dead = rig.recover()
    left = [id for queue, id in leased if rig.state(id, queue=queue) is JobState.LEASED]
    assert not left, f"recovery did not find the expired leases of {left}"
    assert ready + dead == len(leased), "recovery's counts are not what it recovered"


def _check_purge_empties(rig: Rig, queue: str) -> None:
    for state in set(JobState) - {JobState.LEASED}:
        for _ in range(TURNS):
            if not rig.backend.purge(queue, state, 1_000):
                break
    assert not any(rig.counts(queue).values()), "a purged queue still counts jobs"
