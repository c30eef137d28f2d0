"""Hooks of the memory backend: lease and renew."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from datetime import datetime

from scheduler.clock import later
from scheduler.leases import Lease
from scheduler.states import JobState
from scheduler.values import maker_of
from scheduler_backends.memory.queue import MemoryQueue
from scheduler_backends.memory.store import SLICE, Store
from scheduler_backends.memory.stored_job import StoredJob

_lease = maker_of(Lease, "job", "token", "expires_at")


class LeaseHooks:
    """Hooks of lease and renew: ready → leased, leased → leased."""

    _store: Store

    def _lease(
        self, queues: Sequence[str], *, token: str, worker_id: str, duration: float, limit: int
    ) -> Sequence[Lease]:
        """Lease from queues, and from the partitions within them, in turn. A repeat renews the leases still held."""
        store = self._store
        store.warn_of_copy()
        most = min(limit, SLICE)
        with store.lock:
            now = store.begin()
            known = store.in_turn("lease", queues)
            jobs: list[StoredJob] = []
            for queue in known:
                for stored in queue.held.get(token, {}).values():
                    _renew(queue, stored, duration, now)
                    jobs.append(stored)
            serving = deque(queue for queue in known if queue.ready and not queue.paused)
            while serving and len(jobs) < most:
                queue = serving[0]
                found = queue.next_ready()
                if found is None:
                    serving.popleft()
                    continue
                found.token, found.worker_id = token, worker_id
                queue.move(found, JobState.LEASED, now, seconds=duration, attempts=found.attempts + 1)
                jobs.append(found)
                store.had_turn("lease", queue)
                serving.rotate(-1)
            leases = [_lease(stored.job(), token, stored.deadline) for stored in jobs]
            store.end()
        return leases

    def _renew(self, leases: Sequence[Lease], duration: float) -> Sequence[Lease]:
        return self._store.settle_each(leases, lambda queue, stored, _, now: _renew(queue, stored, duration, now))


def _renew(queue: MemoryQueue, stored: StoredJob, duration: float, now: datetime) -> None:
    stored.seconds = duration
    queue.leases.change(stored, later(now, duration))
