"""Nobody's object changes a stored job, and a stored job changes nobody's object."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

from memory.moves import QUEUE, add, complete, lease, new
from scheduler.leases import Completion
from scheduler.queues import Retention
from scheduler.states import JobState
from scheduler_backends.memory import MemoryBackend


def _stored(backend: MemoryBackend, job_id: str) -> dict[str, str]:
    return dict(backend.get(QUEUE, [job_id])[job_id].metadata)


def test_metadata_that_anybody_holds_can_be_changed_without_effect() -> None:
    backend = MemoryBackend()
    asked = new(metadata={"kind": "stored"})
    (answer,) = backend.enqueue([asked])
    held = [answer.job, backend.get(QUEUE, [asked.id])[asked.id], backend.list(QUEUE, JobState.READY).jobs[0]]
    held += [backend.enqueue([asked])[0].job, lease(backend)[0].job]
    for mapping in (asked.metadata, *(job.metadata for job in held)):
        assert mapping == {"kind": "stored"}
        mapping["kind"] = "changed"  # type: ignore[index]
        assert _stored(backend, asked.id) == {"kind": "stored"}


def test_jobs_without_metadata_share_none() -> None:
    backend = MemoryBackend()
    first, second = add(backend, 2)
    first.job.metadata["a"] = "1"  # type: ignore[index]
    assert second.job.metadata == {}
    assert _stored(backend, first.job.id) == {}


def test_a_snapshot_stays_as_it_was() -> None:
    backend = MemoryBackend(retention=Retention(succeeded=60.0))
    (answer,) = add(backend, payload=b"x")
    before = replace(answer.job)
    (held,) = lease(backend)
    leased = replace(held.job)
    backend.complete([Completion(lease=held, result=b"done")])
    assert answer.job == before
    assert held.job == leased
    assert backend.get(QUEUE, [before.id])[before.id].state is JobState.SUCCEEDED


def test_every_answer_has_lists_and_mappings_of_its_own() -> None:
    backend = MemoryBackend()
    add(backend, 2)
    (row,) = backend.stats([QUEUE])
    row.counts.clear()  # type: ignore[attr-defined]
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


def test_snapshots_can_be_pickled_and_copied() -> None:
    backend = MemoryBackend()
    job = add(backend, metadata={"a": "b"})[0].job
    assert pickle.loads(pickle.dumps(job)) == job == copy.deepcopy(job)  # noqa: S301 - our own bytes
