"""Hooks of the memory backend: promote, recover and trim, which act on jobs whose deadline has come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from scheduler.jobs import LEASE_EXPIRED
from scheduler.leases import Promotion, Recovery
from scheduler.states import JobState
from scheduler_backends.memory.queue import MemoryQueue
from scheduler_backends.memory.store import Store
from scheduler_backends.memory.stored_job import DeadlineHeap, StoredJob


class MaintenanceHooks:
    """Hooks of maintenance: scheduled, retry_wait and expired leases → ready or dead; finished jobs are deleted."""

    _store: Store

    def _promote_due(self, queues: Sequence[str], limit: int) -> Promotion:
        """Promote urgent jobs first."""
        moved, next_due = self._for_each_due("promote", queues, limit, lambda queue: queue.due, _promote)
        return Promotion(moved=moved, next_due=next_due)

    def _recover_expired(self, queues: Sequence[str], limit: int) -> Recovery:
        dead = 0

        def recover(queue: MemoryQueue, stored: StoredJob, now: datetime) -> None:
            nonlocal dead
            stored.record(LEASE_EXPIRED, now)
            is_used_up = stored.attempts > stored.new.max_retries
            queue.move(stored, JobState.DEAD if is_used_up else JobState.READY, now)
            stored.crashes += 1
            dead += is_used_up

        moved, next_expiry = self._for_each_due("recover", queues, limit, lambda queue: (queue.leases,), recover)
        return Recovery(ready=moved - dead, dead=dead, next_expiry=next_expiry)

    def _trim(self, queues: Sequence[str], limit: int) -> int:
        return self._for_each_due("trim", queues, limit, lambda queue: (queue.finished,), _trim)[0]

    def _for_each_due(
        self,
        method: str,
        names: Sequence[str],
        limit: int,
        heaps_of: Callable[[MemoryQueue], Sequence[DeadlineHeap]],
        act: Callable[[MemoryQueue, StoredJob, datetime], None],
    ) -> tuple[int, float | None]:
        """
        Call *act* for up to *limit* jobs whose deadline has come.

        Returns how many, and the seconds until the next deadline (0 = now, None = there is none).
        """
        next_deadline: float | None = None

        def act_on(most: int, now: datetime) -> int:
            nonlocal next_deadline
            done = 0
            heaps = [(queue, heap) for queue in self._store.in_turn(method, names) for heap in heaps_of(queue)]
            for queue, heap in heaps:
                while done < most and (first := heap.first()) is not None and first[0] <= now:
                    act(queue, first[1], now)
                    done += 1
                    self._store.had_turn(method, queue)
            firsts = [first[0] for _, heap in heaps if (first := heap.first()) is not None]
            next_deadline = max(0.0, (min(firsts) - now).total_seconds()) if firsts else None
            return done

        return self._store.in_portions(limit, act_on), next_deadline


def _promote(queue: MemoryQueue, stored: StoredJob, now: datetime) -> None:
    queue.move(stored, JobState.READY, now)


def _trim(queue: MemoryQueue, stored: StoredJob, _: datetime) -> None:
    queue.delete(stored)
