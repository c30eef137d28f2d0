"""Queue versions and partitions: the ability TopologyAdmin, as every store with partitions offers it."""

from __future__ import annotations

from typing import get_args

from scheduler.abilities import Finished
from scheduler.errors import ConfigError, TopologyError
from scheduler.limits import check_count, check_name
from scheduler.states import LIVE, TERMINAL
from scheduler.topology import MAX_PARTITIONS, QueueTopology, QueueVersion, VersionState
from scheduler_backends.memory.partitions import Version
from scheduler_backends.memory.queues import MemoryQueue
from scheduler_backends.memory.store import Store


class TopologyMethods:
    """The methods of TopologyAdmin. Under one lock no gates are needed: nobody enqueues while a version changes."""

    _store: Store

    def topology(self, queue: str) -> QueueTopology:
        """The versions of *queue* now, or those that it would be made with."""
        name = check_name("queue", queue, ConfigError)
        with self._store.lock:
            self._store.look()
            return _topology_of(self._store.seen(name))

    def promote_queue_version(self, queue: str, version: int, partitions: int) -> QueueTopology:
        """Make *version* the active one and every older one draining; `TopologyError` where that is unlawful."""
        name = check_name("queue", queue, ConfigError)
        number = check_count("version", version, at_least=1)
        count = check_count("partitions", partitions, at_least=1, at_most=MAX_PARTITIONS)
        with self._store.lock:
            self._store.look()
            changed = self._store.seen(name)
            _promote(changed, number, count)
            self._store.queues[name] = changed  # one that was never used is known from here on
            return _topology_of(changed)

    def complete_draining_version(self, queue: str, version: int, *, finished: Finished = "refuse") -> QueueTopology:
        """Remove a draining *version* that holds no job; `TopologyError` with `.counts` where some stand in the way."""
        name, number = check_name("queue", queue, ConfigError), check_count("version", version, at_least=1)
        if finished not in get_args(Finished):
            raise ConfigError("finished", f"must be one of {', '.join(get_args(Finished))}")
        with self._store.lock:
            self._store.look()
            changed = self._store.seen(name)
            draining = _removable(changed, number, finished)
            if draining is not None:
                self._store.begin()
                _clear(changed, draining, finished)
                changed.epoch += 1
                del changed.versions[number]
                self._store.end()
            return _topology_of(changed)


def _topology_of(queue: MemoryQueue) -> QueueTopology:
    versions = tuple(
        QueueVersion(
            version=version.number,
            partitions=version.partitions,
            state=VersionState.ACTIVE if version is queue.active else VersionState.DRAINING,
        )
        for version in sorted(queue.versions.values(), key=lambda version: version.number)
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
        queue.activate(Version(queue.name, number, partitions))


def _removable(queue: MemoryQueue, number: int, finished: Finished) -> Version | None:
    """The version, if it may go, with the jobs that *finished* says what to do with. None: it is gone already."""
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


def _clear(queue: MemoryQueue, version: Version, finished: Finished) -> None:
    for state in TERMINAL:
        while (row := version.chains[state].first) is not None:
            if finished == "purge":
                queue.delete(row)
            else:
                queue.move_to_active(row)
