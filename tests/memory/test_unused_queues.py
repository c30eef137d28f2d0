"""Queues that were used once and are empty do not pile up."""

from __future__ import annotations

import gc
import tracemalloc

from scheduler.identity import new_token
from scheduler.jobs import NewJob
from scheduler.leases import Completion
from scheduler.states import JobState
from scheduler_backends.memory import MemoryBackend

MANY = 3_000


def use_once(backend: MemoryBackend, queue: str) -> None:
    backend.enqueue([NewJob(type="t", queue=queue)])
    leases = backend.lease([queue], token=new_token(), worker_id="w", duration=30.0, limit=5)
    assert not backend.complete([Completion(lease=one) for one in leases])


def test_many_queues_used_once_leave_nothing_behind():
    backend = MemoryBackend()
    use_once(backend, "first")
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(MANY):
            use_once(backend, f"queue {number}")
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 300 * MANY
    assert len(backend.stats()) <= 200


def test_a_queue_with_jobs_or_settings_is_never_forgotten():
    backend = MemoryBackend()
    backend.pause("paused")
    backend.promote_queue_version("promoted", 2, 4)
    backend.enqueue([NewJob(type="t", queue="later", delay=60.0)])
    backend.enqueue([NewJob(type="t", queue=name) for name in ("held", "now")])
    (held,) = backend.lease(["held"], token=new_token(), worker_id="w", duration=60.0, limit=1)
    for number in range(MANY):
        use_once(backend, f"queue {number}")
    stats = {each.queue: each for each in backend.stats()}
    assert stats["paused"].paused
    assert stats["promoted"].version == 2
    assert stats["later"].counts[JobState.SCHEDULED] == stats["now"].counts[JobState.READY] == 1
    assert not backend.complete([Completion(lease=held)])
