"""Hooks of the memory backend: complete, retry, bury and release."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from scheduler.clock import later
from scheduler.leases import Completion, Failure, Lease
from scheduler.states import JobState
from scheduler_backends.memory.queue import MemoryQueue
from scheduler_backends.memory.store import Store
from scheduler_backends.memory.stored_job import StoredJob


class SettleHooks:
    """Hooks of the calls that settle leases: leased → succeeded, retry_wait, dead or ready."""

    _store: Store

    def _complete(self, completions: Sequence[Completion]) -> Sequence[Lease]:
        return self._store.settle_each(completions, _complete)

    def _retry(self, failures: Sequence[Failure]) -> Sequence[Lease]:
        return self._store.settle_each(failures, _retry)

    def _bury(self, failures: Sequence[Failure]) -> Sequence[Lease]:
        return self._store.settle_each(failures, _bury)

    def _release(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        """Put the jobs first in line, in the order given. Each goes to the front, so the last one moves first."""
        return self._store.settle_each(leases[::-1], _release)[::-1]


def _complete(queue: MemoryQueue, stored: StoredJob, completion: Completion, now: datetime) -> None:
    stored.result = completion.result
    queue.move(stored, JobState.SUCCEEDED, now)


def _retry(queue: MemoryQueue, stored: StoredJob, failure: Failure, now: datetime) -> None:
    attempts = _record(stored, failure, now)
    if later(now, failure.delay) > now:
        queue.move(stored, JobState.RETRY_WAIT, now, seconds=failure.delay, attempts=attempts)
    else:
        queue.move(stored, JobState.READY, now, attempts=attempts)


def _bury(queue: MemoryQueue, stored: StoredJob, failure: Failure, now: datetime) -> None:
    queue.move(stored, JobState.DEAD, now, attempts=_record(stored, failure, now))


def _record(stored: StoredJob, failure: Failure, now: datetime) -> int:
    """Record the error, if there is one, and return the new number of attempts."""
    if failure.error is not None:
        stored.record(failure.error, now)
    return stored.attempts if failure.counted else stored.attempts - 1


def _release(queue: MemoryQueue, stored: StoredJob, _: Lease, now: datetime) -> None:
    queue.move(stored, JobState.READY, now, attempts=stored.attempts - 1, first=True)
