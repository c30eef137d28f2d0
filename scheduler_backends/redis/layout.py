"""The layout of a queue: its versions and partitions, parsed from the topology hash, which may be damaged."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain

from scheduler.errors import TopologyError
from scheduler.limits import MAX_COUNT
from scheduler.topology import MAX_PARTITIONS, QueueTopology, QueueVersion, VersionState, partition_of
from scheduler_backends.redis.config import RedisConfig
from scheduler_backends.redis.keys import Keys, Partition

MAX_VERSIONS = 100  # at the same time; a queue normally has one or two
_NUMBER = re.compile(rb"\d{1,15}")
_PAUSE = re.compile(rb"\d{1,15}:[01]")


@dataclass(frozen=True, slots=True)
class Layout:
    """Versions and partitions of a queue at one moment. exists: False = the queue is not in the store."""

    topology: QueueTopology
    exists: bool
    pause: bytes  # its number, ':', 1 or 0
    versions: tuple[tuple[Partition, ...], ...]  # each version's partitions, the active version first
    partitions: tuple[Partition, ...]  # by version and number; empty if the queue does not exist
    read_at: float  # by time.monotonic()

    @property
    def drains(self) -> bool:
        """Whether any version is draining."""
        return len(self.versions) > 1

    def home(self, job_id: str) -> Partition:
        """Return the partition for a new job with this id."""
        partitions = self.versions[0]
        return partitions[partition_of(job_id, len(partitions))] if len(partitions) > 1 else partitions[0]

    def homes(self, job_id: str) -> list[Partition]:
        """Return the partitions that may have a job with this id: one per version, the active version first."""
        return [partitions[partition_of(job_id, len(partitions))] for partitions in self.versions]


def layout_of(queue: str, fields: Mapping[bytes, bytes], keys: Keys, config: RedisConfig) -> Layout:
    """
    Return the layout that *fields*, the topology hash, describe. Without any version, the layout of a new queue.

    Raises `TopologyError` if the fields are damaged.
    """

    def refuse(field: bytes, why: str) -> TopologyError:
        return TopologyError(f"the topology of queue {queue!r} is damaged: its field {field!r} {why}")

    def number(field: bytes, text: bytes, at_most: int) -> int:
        if not _NUMBER.fullmatch(text) or int(text) > at_most:
            raise refuse(field, f"is not a number up to {at_most}")
        return int(text)

    sizes = {}
    for field, text in fields.items():
        if field.startswith(b"v:"):
            version, size = number(field, field[2:], MAX_COUNT), number(field, text, MAX_PARTITIONS)
            if not (version and size):
                raise refuse(field, "is 0")
            sizes[version] = size
    if len(sizes) > MAX_VERSIONS:
        raise TopologyError(f"the topology of queue {queue!r} is damaged: it has {len(sizes)} versions")
    active = number(b"active", fields.get(b"active", b"0"), MAX_COUNT)
    if (active or sizes) and active not in sizes:
        raise refuse(b"active", "is not one of its versions")
    pause = fields.get(b"pause", b"0:0")
    if not _PAUSE.fullmatch(pause):
        raise refuse(b"pause", "is not a number followed by :0 or :1")
    epoch, *_ = (number(field, fields.get(field, b"0"), 10**15) for field in (b"epoch", b"highest", b"pauses"))
    exists = bool(sizes)
    if not exists:
        active, sizes = config.active_version, {config.active_version: config.partitions}
    make = keys.partition if exists else keys.new_partition
    groups = {one: tuple(make(queue, one, place) for place in range(size)) for one, size in sorted(sizes.items())}
    partitions = tuple(chain.from_iterable(groups.values()))
    states = {one: VersionState.ACTIVE if one == active else VersionState.DRAINING for one in groups}
    versions = tuple(QueueVersion(version=one, partitions=sizes[one], state=states[one]) for one in groups)
    return Layout(
        topology=QueueTopology(queue=queue, epoch=epoch, versions=versions),
        exists=exists,
        pause=pause,
        versions=(groups.pop(active), *groups.values()),
        partitions=partitions if exists else (),
        read_at=time.monotonic(),
    )
