"""Checks of a memory backend from inside: lists, heaps and counts agree with the jobs, and nothing is left over."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable

from scheduler.states import LIVE, TERMINAL, JobState
from scheduler_backends.memory import MemoryBackend
from scheduler_backends.memory.queue import MemoryQueue
from scheduler_backends.memory.stored_job import WAITING, DeadlineHeap, JobList, StoredJob

SLACK = 64  # entries of removed jobs that a heap may keep


def check_inside(backend: MemoryBackend) -> None:
    """Nothing else may use *backend* meanwhile."""
    backend.ping()  # which repairs what was interrupted
    for queue in backend._store.queues.values():
        check_queue(queue)


def check_queue(queue: MemoryQueue) -> None:
    found: Counter[StoredJob] = Counter()
    ready = 0
    numbers = {version.version for version in queue.topology.versions}
    assert queue.active is queue.topology.active
    for state in JobState:
        for (version, partition, priority), jobs in queue.lists(state):
            listed = _walk(jobs)
            found.update(listed)
            for stored in listed:
                assert stored.state is state
                assert stored.place[0] == version
                assert version in numbers
                assert stored.home is jobs
                if state is JobState.READY:
                    assert (stored.place[1], stored.new.priority) == (partition, priority)
            if state is JobState.READY:
                ready += len(listed)
    assert found == Counter(queue.jobs.values()), "a job is in no list, or in two, or was forgotten elsewhere"
    assert all(id == stored.id for id, stored in queue.jobs.items())
    assert queue.ready == ready
    assert {stored.place for stored in found if stored.state is JobState.READY} <= set(queue._places)
    assert sorted(queue._places) == sorted(queue._turns)
    assert _listed(queue, *queue.due) == _ids(stored for stored in found if stored.state in WAITING)
    assert _listed(queue, queue.leases) == _ids(stored for stored in found if stored.state is JobState.LEASED)
    assert _listed(queue, queue.finished) == _ids(stored for stored in found if stored.state in TERMINAL)
    assert all(queue.held.values())
    held = [(token, id) for token, jobs in queue.held.items() for id in jobs]
    assert sorted(held) == sorted((stored.token, stored.id) for stored in found if stored.state is JobState.LEASED)
    for stored in found:
        job = stored.job()
        assert (job.lease_owner is not None) == (job.lease_expires_at is not None) == (job.state is JobState.LEASED)
        assert (job.due_at is not None) == (job.state in WAITING)
        assert (job.finished_at is None) == (job.state in LIVE)
        assert job.attempts >= (job.state is JobState.LEASED)


def _ids(jobs: Iterable[StoredJob]) -> list[str]:
    return sorted(stored.id for stored in jobs)


def _walk(jobs: JobList) -> list[StoredJob]:
    listed = list(jobs.after_serial())
    assert len(listed) == jobs.size
    assert [stored.serial for stored in listed] == sorted({stored.serial for stored in listed})
    backwards = []
    node = jobs.before
    while node is not jobs:
        backwards.append(node)
        node = node.before
    assert backwards[::-1] == listed
    return listed


def _listed(queue: MemoryQueue, *heaps: DeadlineHeap) -> list[str]:
    """The ids in *heaps*. Each job has an entry that is not later than its deadline."""
    ids: list[str] = []
    for heap in heaps:
        valid = [
            (moment, queue.jobs[id])
            for moment, serial, id in heap._entries
            if id in queue.jobs and queue.jobs[id].serial == serial
        ]
        assert len({stored for _, stored in valid}) == heap.size
        assert len(heap._entries) <= 2 * heap.size + SLACK
        for stored in {stored for _, stored in valid}:
            assert stored.heap is heap
            assert stored.deadline is not None
            assert min(moment for moment, other in valid if other is stored) <= stored.deadline
            ids.append(stored.id)
    return sorted(ids)


def kept_alive() -> int:
    """How many stored jobs this process keeps, for whatever reason."""
    gc.collect()
    # Not isinstance: it asks an object that is only a proxy, such as the settings of a framework, for its class.
    return sum(issubclass(type(thing), StoredJob) for thing in gc.get_objects())
