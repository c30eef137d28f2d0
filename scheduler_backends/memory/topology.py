"""Changes of a queue's versions, as every store with partitions allows them."""

from __future__ import annotations

from scheduler.backend import Finished
from scheduler.errors import TopologyError
from scheduler.states import LIVE, TERMINAL, JobState
from scheduler.topology import QueueTopology, QueueVersion, VersionState
from scheduler_backends.memory.partitions import Version
from scheduler_backends.memory.queues import MemoryQueue


def topology_of(queue: MemoryQueue) -> QueueTopology:
    """The versions of *queue* now."""
    versions = tuple(
        QueueVersion(
            version=version.number,
            partitions=version.partitions,
            state=VersionState.ACTIVE if version is queue.active else VersionState.DRAINING,
        )
        for version in sorted(queue.versions.values(), key=lambda version: version.number)
    )
    return QueueTopology(queue=queue.name, epoch=queue.epoch, versions=versions)


def promote_version(queue: MemoryQueue, number: int, partitions: int) -> None:
    """Make version *number* the active one. Under one lock no gates are needed: nobody enqueues meanwhile."""
    existing = queue.versions.get(number)
    if existing is not None:
        if existing.partitions != partitions:
            raise TopologyError(f"version {number} of {queue.name!r} has {existing.partitions} partitions already")
        return
    if number <= queue.highest:
        raise TopologyError(f"version {number} of {queue.name!r} is not above {queue.highest}, the highest ever used")
    queue.active = queue.versions[number] = Version(queue.name, number, partitions)
    queue.highest = number
    queue.epoch += 1


def complete_version(queue: MemoryQueue, number: int, finished: Finished) -> None:
    """Remove version *number*, which is draining and holds no job that *finished* does not cover."""
    version = queue.versions.get(number)
    if version is None:
        if number > queue.highest:
            raise TopologyError(f"version {number} of {queue.name!r} was never used")
        return
    counts = {state: count for state, count in version.counts().items() if count}
    if version is queue.active:
        raise TopologyError(f"version {number} of {queue.name!r} is the active one", counts=_by_name(counts))
    if finished != "refuse" and not counts.keys() & LIVE:
        _clear(queue, version, finished)
        counts = {}
    if counts:
        raise TopologyError(f"version {number} of {queue.name!r} still holds jobs", counts=_by_name(counts))
    del queue.versions[number]
    queue.epoch += 1


def _clear(queue: MemoryQueue, version: Version, finished: Finished) -> None:
    for state in TERMINAL:
        chain = version.chains[state]
        while (row := chain.first) is not None:
            if finished == "purge":
                queue.delete(row)
            else:
                queue.move_to_active(row)


def _by_name(counts: dict[JobState, int]) -> dict[str, int]:
    return {str(state): count for state, count in counts.items()}
