"""Hooks of the memory backend: cancel, requeue, pause, resume, purge, and the ability TopologyAdmin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import get_args

from scheduler.abilities import Finished
from scheduler.errors import ConfigError, TopologyError
from scheduler.leases import MoveAnswer
from scheduler.limits import check_queue
from scheduler.states import LIVE, MOVES, TERMINAL, JobState
from scheduler.topology import QueueTopology, QueueVersion, VersionState, check_partitions, check_version
from scheduler_backends.memory.queue import MemoryQueue
from scheduler_backends.memory.store import Store
from scheduler_backends.memory.stored_job import StoredJob


class AdminHooks:
    """
    Hooks of the operators' calls, and the ability TopologyAdmin.

    All calls use one lock, so no job is enqueued while the topology changes.
    """

    _store: Store

    def _cancel(self, queue: str, ids: Sequence[str]) -> Sequence[MoveAnswer]:
        return self._move_by_id("cancel", queue, ids, _cancel)

    def _requeue(self, queue: str, ids: Sequence[str]) -> Sequence[MoveAnswer]:
        return self._move_by_id("requeue", queue, ids, _requeue)

    def _move_by_id(
        self, method: str, name: str, ids: Sequence[str], act: Callable[[MemoryQueue, StoredJob, datetime], None]
    ) -> Sequence[MoveAnswer]:
        sources, (target,) = MOVES[method]

        def move_one(id: str, now: datetime) -> MoveAnswer:
            queue = self._store.peek(name)
            stored = queue.jobs.get(id)
            if stored is None or stored.state not in sources:
                return MoveAnswer(id=id, moved=False, state=None if stored is None else stored.state)
            act(queue, stored, now)
            return MoveAnswer(id=id, moved=True, state=target)

        return self._store.in_slices(ids, move_one)

    def _pause(self, queue: str) -> None:
        with self._store.lock:
            self._store.look()
            self._store.queue(queue).paused = True

    def _resume(self, queue: str) -> None:
        with self._store.lock:
            self._store.begin()
            resumed = self._store.peek(queue)
            resumed.paused = False
            resumed.wake()
            self._store.end()

    def _purge(self, queue: str, state: JobState, limit: int) -> int:
        def purge(most: int, _: datetime) -> int:
            purged = self._store.peek(queue)
            found = [*islice(purged.jobs_in(state), most)]
            for stored in found:
                purged.delete(stored)
            return len(found)

        return self._store.in_portions(limit, purge)

    def topology(self, queue: str) -> QueueTopology:
        """Return the current versions of *queue*; for an unused queue, those that it would be created with."""
        name = check_queue(queue)
        with self._store.lock:
            self._store.look()
            return self._store.peek(name).topology

    def promote_queue_version(self, queue: str, version: int, partitions: int) -> QueueTopology:
        """Make *version* the active one and every older one draining. Raises `TopologyError` if that is impossible."""
        name, number, count = check_queue(queue), check_version(version), check_partitions(partitions)
        with self._store.lock:
            self._store.look()
            changed = self._store.peek(name)
            _promote(changed, number, count)
            self._store.queues[name] = changed  # it may be an unused queue, which is not stored yet
            return changed.topology

    def complete_draining_version(self, queue: str, version: int, *, finished: Finished = "refuse") -> QueueTopology:
        """Remove a draining *version* that holds no job. Raises `TopologyError` with `counts` if jobs prevent that."""
        name, number = check_queue(queue), check_version(version)
        if finished not in get_args(Finished):
            raise ConfigError("finished", f"must be one of {', '.join(get_args(Finished))}")
        with self._store.lock:
            self._store.look()
            changed = self._store.peek(name)
            if _is_removable(changed, number, finished):
                self._store.begin()
                _remove(changed, number, finished)
                self._store.end()
            return changed.topology


def _cancel(queue: MemoryQueue, stored: StoredJob, now: datetime) -> None:
    queue.move(stored, JobState.CANCELLED, now)


def _requeue(queue: MemoryQueue, stored: StoredJob, now: datetime) -> None:
    stored.crashes = 0
    queue.move(stored, JobState.READY, now, attempts=0)


def _promote(queue: MemoryQueue, number: int, partitions: int) -> None:
    old, active = queue.topology, queue.active.version
    existing = next((version for version in old.versions if version.version == number), None)
    if existing is not None and existing.partitions != partitions:
        raise TopologyError(f"version {number} of {old.queue!r} already has {existing.partitions} partitions")
    if existing is None:
        if number < active:
            raise TopologyError(f"version {number} of {old.queue!r} is below {active}, the highest ever used")
        draining = [replace(version, state=VersionState.DRAINING) for version in old.versions]
        added = QueueVersion(version=number, partitions=partitions, state=VersionState.ACTIVE)
        queue.change_topology(replace(old, epoch=old.epoch + 1, versions=(*draining, added)))


def _is_removable(queue: MemoryQueue, number: int, finished: Finished) -> bool:
    """Return True if the version may be removed, False if it was removed before. Raises `TopologyError` otherwise."""
    name = queue.topology.queue
    if number not in [version.version for version in queue.topology.versions]:
        if number > queue.active.version:
            raise TopologyError(f"version {number} of {name!r} was never used")
        return False
    counts = {state: count for state, count in queue.counts(number).items() if count}
    named = {str(state): count for state, count in counts.items()}
    if number == queue.active.version:
        raise TopologyError(f"version {number} of {name!r} is the active one", counts=named)
    if counts if finished == "refuse" else counts.keys() & LIVE:
        raise TopologyError(f"version {number} of {name!r} still holds jobs: {named}", counts=named)
    return True


def _remove(queue: MemoryQueue, number: int, finished: Finished) -> None:
    for stored in [stored for state in TERMINAL for stored in queue.jobs_in(state, number)]:
        if finished == "purge":
            queue.delete(stored)
        else:
            queue.move_to_active(stored)
    old = queue.topology
    versions = tuple(version for version in old.versions if version.version != number)
    queue.change_topology(replace(old, epoch=old.epoch + 1, versions=versions))
