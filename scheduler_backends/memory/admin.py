"""Cancel, requeue, pause, resume and purge, and the ability TopologyAdmin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import islice
from typing import get_args

from scheduler.abilities import Finished
from scheduler.errors import ConfigError, TopologyError
from scheduler.leases import MoveAnswer
from scheduler.limits import check_queue
from scheduler.states import LIVE, MOVES, TERMINAL, JobState, Move
from scheduler.topology import QueueTopology, QueueVersion, VersionState, check_partitions, check_version
from scheduler_backends.memory.queue import MemoryQueue
from scheduler_backends.memory.store import Store
from scheduler_backends.memory.stored_job import StoredJob
from scheduler_backends.memory.versions import Version


class AdminHooks:
    """
    What operators do.

    Under one lock no gates are needed: nobody enqueues while the topology changes.
    """

    _store: Store

    def _cancel(self, queue: str, ids: Sequence[str]) -> Sequence[MoveAnswer]:
        def cancel(found: MemoryQueue, stored: StoredJob, now: datetime) -> None:
            found.move(stored, JobState.CANCELLED, now)

        return self._move_by_id(queue, ids, MOVES["cancel"], cancel)

    def _requeue(self, queue: str, ids: Sequence[str]) -> Sequence[MoveAnswer]:
        def requeue(found: MemoryQueue, stored: StoredJob, now: datetime) -> None:
            stored.crashes = 0
            found.move(stored, JobState.READY, now, attempts=0)

        return self._move_by_id(queue, ids, MOVES["requeue"], requeue)

    def _move_by_id(
        self, name: str, ids: Sequence[str], move: Move, act: Callable[[MemoryQueue, StoredJob, datetime], None]
    ) -> Sequence[MoveAnswer]:
        def move_one(id: str, now: datetime) -> MoveAnswer:
            queue = self._store.peek(name)
            stored = queue.jobs.get(id)
            if stored is None or stored.state not in move.sources:
                return MoveAnswer(id=id, moved=False, state=None if stored is None else stored.state)
            act(queue, stored, now)
            (target,) = move.targets
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
            versions = self._store.peek(queue).versions.values()
            found = [*islice((stored for version in versions for stored in version.jobs(state)), most)]
            for stored in found:
                self._store.queues[queue].delete(stored)
            return len(found)

        return self._store.in_portions(limit, purge)

    def topology(self, queue: str) -> QueueTopology:
        """Return the versions of *queue*; one that was never used returns what it would be created with."""
        name = check_queue(queue)
        with self._store.lock:
            self._store.look()
            return _topology(self._store.peek(name))

    def promote_queue_version(self, queue: str, version: int, partitions: int) -> QueueTopology:
        """Make *version* the active one and every older one draining; `TopologyError` where that is not possible."""
        name, number, count = check_queue(queue), check_version(version), check_partitions(partitions)
        with self._store.lock:
            self._store.look()
            changed = self._store.peek(name)
            _promote(changed, number, count)
            self._store.queues[name] = changed  # one that was never used is known from here on
            return _topology(changed)

    def complete_draining_version(self, queue: str, version: int, *, finished: Finished = "refuse") -> QueueTopology:
        """Remove a draining *version* that holds no job; `TopologyError` with `.counts` where some stand in the way."""
        name, number = check_queue(queue), check_version(version)
        if finished not in get_args(Finished):
            raise ConfigError("finished", f"must be one of {', '.join(get_args(Finished))}")
        with self._store.lock:
            self._store.look()
            changed = self._store.peek(name)
            draining = _removable(changed, number, finished)
            if draining is not None:
                self._store.begin()
                _remove(changed, draining, finished)
                self._store.end()
            return _topology(changed)


def _topology(queue: MemoryQueue) -> QueueTopology:
    versions = tuple(
        QueueVersion(
            version=number,
            partitions=version.partitions,
            state=VersionState.ACTIVE if version is queue.active else VersionState.DRAINING,
        )
        for number, version in sorted(queue.versions.items())
    )
    return QueueTopology(queue=queue.name, epoch=queue.epoch, versions=versions)


def _promote(queue: MemoryQueue, number: int, partitions: int) -> None:
    existing, active = queue.versions.get(number), queue.active.number
    if existing is None and number < active:
        raise TopologyError(f"version {number} of {queue.name!r} is below {active}, the highest ever used")
    if existing is not None and existing.partitions != partitions:
        raise TopologyError(f"version {number} of {queue.name!r} has {existing.partitions} partitions already")
    if existing is None:
        queue.epoch += 1
        queue.active = queue.versions[number] = Version(number, partitions)


def _removable(queue: MemoryQueue, number: int, finished: Finished) -> Version | None:
    """The version if it may be removed, None if it is gone already."""
    version = queue.versions.get(number)
    if version is None:
        if number > queue.active.number:
            raise TopologyError(f"version {number} of {queue.name!r} was never used")
        return None
    counts = {state: count for state, count in version.counts().items() if count}
    named = {str(state): count for state, count in counts.items()}
    if version is queue.active:
        raise TopologyError(f"version {number} of {queue.name!r} is the active one", counts=named)
    if counts if finished == "refuse" else counts.keys() & LIVE:
        raise TopologyError(f"version {number} of {queue.name!r} still holds jobs: {named}", counts=named)
    return version


def _remove(queue: MemoryQueue, version: Version, finished: Finished) -> None:
    for stored in [stored for state in TERMINAL for stored in version.jobs(state)]:
        if finished == "purge":
            queue.delete(stored)
        else:
            queue.move_to_active(stored)
    queue.epoch += 1
    del queue.versions[version.number]
