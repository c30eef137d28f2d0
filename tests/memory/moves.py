"""Calls made short, for a test that makes many."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.identity import new_token
from scheduler.jobs import NewJob
from scheduler.leases import Completion, Enqueued, Failure, Lease
from scheduler_backends.memory import MemoryBackend

QUEUE = "q"


def new(**fields: object) -> NewJob:
    return NewJob(**{"type": "t", "queue": QUEUE, **fields})  # type: ignore[arg-type]


def add(backend: MemoryBackend, count: int = 1, **fields: object) -> Sequence[Enqueued]:
    return backend.enqueue([new(**fields) for _ in range(count)])


def lease(
    backend: MemoryBackend,
    limit: int = 1,
    *,
    duration: float = 30.0,
    queues: Sequence[str] = (QUEUE,),
    token: str | None = None,
) -> Sequence[Lease]:
    return backend.lease(queues, token=token or new_token(), worker_id="w", duration=duration, limit=limit)


def complete(backend: MemoryBackend, leases: Sequence[Lease]) -> Sequence[Lease]:
    return backend.complete([Completion(lease=each) for each in leases])


def bury(backend: MemoryBackend, leases: Sequence[Lease]) -> Sequence[Lease]:
    return backend.bury([Failure(lease=each) for each in leases])


def retry(backend: MemoryBackend, leases: Sequence[Lease], delay: float = 0.0) -> Sequence[Lease]:
    return backend.retry([Failure(lease=each, delay=delay) for each in leases])
