"""What callers hold cannot change a stored job, and a stored job changes nothing that callers hold."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from datetime import timedelta

import pytest

from memory.inside import check_inside
from memory.moves import QUEUE, add, complete, lease, new
from scheduler.jobs import ErrorRecord, Job, Priority
from scheduler.leases import Completion
from scheduler.queues import Retention
from scheduler.retry import RetryPolicy
from scheduler.states import JobState
from scheduler.testing import ManualClock
from scheduler.topology import partition_of
from scheduler_backends.memory import MemoryBackend


def _stored(backend: MemoryBackend, job_id: str) -> dict[str, str]:
    return dict(backend.get(QUEUE, [job_id])[job_id].metadata)


def test_changing_metadata_that_a_caller_holds_has_no_effect() -> None:
    backend = MemoryBackend()
    given = {"kind": "stored"}
    asked = new(metadata=given)
    (enqueued,) = backend.enqueue([asked])
    held = [enqueued.job, backend.get(QUEUE, [asked.id])[asked.id], backend.list(QUEUE, JobState.READY).jobs[0]]
    held += [backend.enqueue([asked])[0].job, lease(backend)[0].job]
    for mapping in (given, *(job.metadata for job in held)):
        assert mapping == {"kind": "stored"}
        mapping["kind"] = "changed"  # type: ignore[index]
        assert _stored(backend, asked.id) == {"kind": "stored"}


def test_jobs_without_metadata_share_none() -> None:
    backend = MemoryBackend()
    first, second = add(backend, 2)
    first.job.metadata["a"] = "1"  # type: ignore[index]
    assert second.job.metadata == {}
    assert _stored(backend, first.job.id) == {}


def test_a_returned_job_stays_as_it_was() -> None:
    backend = MemoryBackend(retention=Retention(succeeded=60.0))
    (enqueued,) = add(backend, payload=b"x")
    before = replace(enqueued.job)
    (held,) = lease(backend)
    leased = replace(held.job)
    backend.complete([Completion(lease=held, result=b"done")])
    assert enqueued.job == before
    assert held.job == leased
    assert backend.get(QUEUE, [before.id])[before.id].state is JobState.SUCCEEDED


def test_every_result_has_lists_and_mappings_of_its_own() -> None:
    backend = MemoryBackend()
    add(backend, 2)
    (numbers,) = backend.stats([QUEUE])
    numbers.counts.clear()  # type: ignore[attr-defined]
    assert backend.stats([QUEUE])[0].counts[JobState.READY] == 2
    leases = lease(backend, 2)
    refused = complete(backend, [*leases, *leases])
    assert list(refused) == list(leases)
    refused.clear()  # type: ignore[attr-defined]
    assert list(complete(backend, leases)) == list(leases)


def test_a_batch_may_be_any_sequence_and_change_afterwards() -> None:
    backend = MemoryBackend()
    jobs = [new(), new()]
    backend.enqueue(jobs)
    jobs.clear()
    assert backend.stats([QUEUE])[0].counts[JobState.READY] == 2


def test_returned_jobs_can_be_pickled_and_copied() -> None:
    backend = MemoryBackend()
    job = add(backend, metadata={"a": "b"})[0].job
    assert pickle.loads(pickle.dumps(job)) == job == copy.deepcopy(job)  # noqa: S301 - our own bytes


def test_a_job_has_every_value_in_its_field() -> None:
    """It is made of values by position: each value here is another one."""
    clock = ManualClock()
    backend = MemoryBackend(partitions=200, active_version=7, clock=clock)
    asked = new(
        type="type",
        payload=b"payload",
        delay=1.0,
        priority=Priority.HIGH,
        max_retries=11,
        timeout=12.5,
        retry_policy=RetryPolicy(initial=13.0),
        idempotency_key="key",
        metadata={"meta": "data"},
    )
    clock.advance(-5.0)
    stored_at = clock.now()
    (enqueued,) = backend.enqueue([asked])
    scheduled = Job(
        id=asked.id,
        queue=QUEUE,
        type="type",
        payload=b"payload",
        state=JobState.SCHEDULED,
        priority=Priority.HIGH,
        run_at=stored_at + timedelta(seconds=1),
        created_at=stored_at,
        max_retries=11,
        timeout=12.5,
        due_at=stored_at + timedelta(seconds=1),
        retry_policy=RetryPolicy(initial=13.0),
        idempotency_key="key",
        metadata={"meta": "data"},
        queue_version=7,
        partition=partition_of(asked.id, 200),
    )
    assert enqueued.job == scheduled
    stored = backend._store.queues[QUEUE].jobs[asked.id]
    moment = stored_at + timedelta(seconds=25)
    fields = {
        "attempts": 21,
        "crashes": 22,
        "errors": (ErrorRecord(attempt=24, at=stored_at, kind="kind"),),
    }
    for name, value in fields.items():
        setattr(stored, name, value)
    stored.finished_at = stored_at + timedelta(seconds=23)
    stored.result, stored.worker_id, stored.deadline = b"result", "worker", moment

    stored.state = JobState.LEASED
    running = replace(scheduled, due_at=None, **fields)
    assert stored.job() == replace(running, state=JobState.LEASED, lease_owner="worker", lease_expires_at=moment)
    stored.state = JobState.SUCCEEDED
    assert stored.job() == replace(running, state=JobState.SUCCEEDED, finished_at=stored.finished_at, result=b"result")


def test_a_job_that_cannot_be_stored_does_not_stop_the_store() -> None:
    """Not even one whose fields were set around the checks."""
    backend = MemoryBackend()
    add(backend)
    broken = new()
    object.__setattr__(broken, "priority", 9)
    with pytest.raises(IndexError):
        backend.enqueue([broken])
    check_inside(backend)
    assert len(lease(backend, 10)) == 1
