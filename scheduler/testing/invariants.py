"""
Invariants of every store, checked after each test of the suite.

The check ends by purging the queues. This tests `purge` as well, and leaves nothing behind on a shared store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scheduler.jobs import Job
from scheduler.queues import EXACT_COUNT
from scheduler.states import TERMINAL, JobState
from scheduler.testing.harness import BackendHarness
from scheduler.testing.reading import TURNS

Key = tuple[str, str]  # queue and id

_WAITING = frozenset({JobState.SCHEDULED, JobState.RETRY_WAIT})
_BRIEF = 0.05  # seconds to which leases are shortened if time is real


def check_invariants(harness: BackendHarness, queues: Sequence[str] | None = None) -> None:
    """
    Check that each job is in exactly one state, that recovery finds every lease, and that a purge empties a queue.

    queues: None = all queues of *harness*.
    """
    names = harness.queues if queues is None else queues
    for queue in names:
        check_reads_agree(harness, queue)
    leased = {(queue, job.id): job for queue in names for job in harness.listed(JobState.LEASED, queue=queue)}
    if leased:
        _check_recovery_finds(harness, names, leased if harness.clock else _cut_short(harness, leased))
    for queue in names:
        _check_purge_empties(harness, queue)


def check_reads_agree(harness: BackendHarness, queue: str) -> None:
    """Check that list, get and stats agree about *queue*, and that each job's fields fit its state."""
    listed = {state: harness.listed(state, queue=queue) for state in JobState}
    ids = [job.id for jobs in listed.values() for job in jobs]
    assert len(ids) == len(set(ids)), f"an id is listed twice in {queue!r}"
    rows = harness.backend.stats([queue])
    for state in JobState:
        count = sum(row.counts[state] for row in rows)
        if any(state in row.capped for row in rows):
            assert EXACT_COUNT <= count <= len(listed[state]), f"the capped count of {state} is out of bounds"
        else:
            assert count == len(listed[state]), f"stats and list differ in {state}"
    got = harness.backend.get(queue, ids)
    for state, jobs in listed.items():
        for job in jobs:
            assert job.state is state, f"a job that is {job.state} is listed as {state}"
            assert got.get(job.id) == job, "get and list differ"
            check_fields(job)


def check_fields(job: Job) -> None:
    """Check that the fields that belong to a state are set in that state only."""
    assert (job.due_at is not None) == (job.state in _WAITING), f"due_at of a job that is {job.state}"
    assert (job.lease_owner is not None) == (job.state is JobState.LEASED), f"lease_owner of a {job.state} job"
    assert (job.lease_expires_at is not None) == (job.state is JobState.LEASED), f"lease expiry of a {job.state} job"
    assert (job.finished_at is not None) == (job.state in TERMINAL), f"finished_at of a job that is {job.state}"
    assert job.result is None or job.state is JobState.SUCCEEDED, f"result of a job that is {job.state}"
    assert job.attempts >= (1 if job.state is JobState.LEASED else 0)
    assert job.crashes >= 0
    assert len(job.errors) <= 10


def _cut_short(harness: BackendHarness, leased: Mapping[Key, Job]) -> Mapping[Key, Job]:
    """Shorten the leases that the harness knows, and return those of *leased* that they hold. For real time."""
    held = harness.leases - set(harness.backend.renew([*harness.leases], _BRIEF).refused)
    return {key: leased[key] for key in ((lease.job.queue, lease.job.id) for lease in held) if key in leased}


def _check_recovery_finds(harness: BackendHarness, queues: Sequence[str], leased: Mapping[Key, Job]) -> None:
    """Let the leases of *leased* expire and check that recovery finds all of them."""
    if harness.clock:
        last = max(job.lease_expires_at for job in leased.values() if job.lease_expires_at)
        harness.clock.set(max(last, harness.clock.now()))
        harness.advance(0.001)
    else:
        harness.advance(_BRIEF)
    ready, dead = harness.recover(*queues)
    left = [
        id
        for queue in queues
        for id, job in harness.backend.get(queue, [id for name, id in leased if name == queue]).items()
        if job.state is JobState.LEASED
    ]
    assert not left, f"recovery did not find the expired leases of {left}"
    assert ready + dead == len(leased), "recovery's counts differ from what it recovered"


def _check_purge_empties(harness: BackendHarness, queue: str) -> None:
    held = {state: count for state, count in harness.counts(queue).items() if count}
    for state in held.keys() - {JobState.LEASED}:  # purging an empty state takes as long as any other purge
        for _ in range(TURNS):
            if not harness.backend.purge(queue, state, 1_000):
                break
    left = {state: count for state, count in harness.counts(queue).items() if count} if held else {}
    # If time is real, a long lease may be left that a test made without the harness.
    assert not left or (not harness.clock and left.keys() == {JobState.LEASED}), f"a purged queue still counts {left}"
