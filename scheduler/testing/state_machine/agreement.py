"""Compares every read of a store with the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from scheduler.leases import Lease
from scheduler.queues import QueueStats
from scheduler.states import JobState
from scheduler.testing.harness import BackendHarness
from scheduler.testing.state_machine.model import Model
from scheduler.testing.state_machine.model_job import ModelJob, goes_before

_CLOSE = 0.01  # seconds: stores may round to milliseconds


def check_agreement(
    harness: BackendHarness, model: Model, queues: Sequence[str], ids: Sequence[str], now: datetime
) -> None:
    """Check that get, list and stats of *queues* agree with the model. *ids* are all ids in use."""
    for queue in queues:
        expected = {id: model.rows[queue, id].job for id in ids if (queue, id) in model.rows}
        got = dict(harness.backend.get(queue, ids))
        assert got == expected, f"the store and the model differ:\n  store: {got}\n  model: {expected}"
        for state in {job.state for job in got.values()}:  # empty states are covered by the counts below
            listed = {job.id: job for job in harness.listed(state, queue=queue)}
            assert listed == {id: job for id, job in got.items() if job.state is state}, f"list and get differ: {state}"
    rows = harness.backend.stats(queues)
    assert [(row.queue, row.version) for row in rows] == [
        (queue, version) for queue in sorted(queues) for version in model.versions[queue]
    ]
    for row in rows:
        _check_numbers(row, model, now)


def check_lease_order(leases: Sequence[Lease], leasable: Sequence[ModelJob]) -> None:
    """Check that *leases*, the result of one call, are the first ones of each partition, and in order."""
    left = {(row.job.queue, row.job.id): row for row in leasable}
    taken = [left.pop((lease.job.queue, lease.job.id)) for lease in leases]
    for place, row in enumerate(taken):
        before = [other.job.id for other in (*taken[place + 1 :], *left.values()) if goes_before(other, row)]
        assert not before, f"{row.job.id} was leased before {before}"


def _check_numbers(numbers: QueueStats, model: Model, now: datetime) -> None:
    rows = [row for row in model.among([numbers.queue], *JobState) if row.job.queue_version == numbers.version]
    ready = [row for row in rows if row.job.state is JobState.READY]
    counts = Counter(row.job.state for row in rows)
    assert dict(numbers.counts) == {state: counts[state] for state in JobState}
    assert numbers.paused == (numbers.queue in model.paused)
    age = numbers.oldest_ready_age
    assert (age is None) == (not ready), "oldest_ready_age must be None if and only if no job is ready"
    if age is not None:
        # A store may know the exact time at which a job became due. The model only knows when it was promoted.
        least = max(((now - row.ready_at).total_seconds() for row in ready if row.ready_at), default=0.0)
        most = max((now - row.job.created_at).total_seconds() for row in ready)
        assert least - _CLOSE <= age <= most + _CLOSE, f"oldest_ready_age {age} is not within {least} and {most}"
