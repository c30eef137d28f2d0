"""Hook of the memory backend: enqueue."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from scheduler.jobs import NewJob
from scheduler.leases import Enqueued
from scheduler.values import maker_of
from scheduler_backends.memory.store import Store

_enqueued = maker_of(Enqueued, "job", "is_new")


class EnqueueHooks:
    """Hook of enqueue: → scheduled or ready."""

    _store: Store

    def _enqueue(self, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        self._store.warn_of_copy()
        return self._store.in_slices(jobs, self._add)

    def _add(self, new: NewJob, now: datetime) -> Enqueued:
        queue = self._store.queue(new.queue)
        stored = queue.jobs.get(new.id)
        is_new = stored is None or stored.new.nonce == new.nonce
        return _enqueued((stored or queue.add(new, now)).job(), is_new)
