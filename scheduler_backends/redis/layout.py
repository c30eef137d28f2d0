"""How one queue is laid out."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.topology import QueueTopology, partition_of
from scheduler_backends.redis.keys import Partition


@dataclass(frozen=True, slots=True)
class Layout:
    """A queue's versions and partitions as they were at one moment. exists: False = the store knows no such queue."""

    topology: QueueTopology
    exists: bool
    epoch: bytes | None  # as the store writes it, to be compared
    pause: bytes  # its number, ':', 1 or 0
    versions: tuple[tuple[Partition, ...], ...]  # each version's partitions, the active version first
    partitions: tuple[Partition, ...]  # all there are, by version and number; none where there is no such queue
    read_at: float  # by time.monotonic()

    @property
    def drains(self) -> bool:
        """Whether there are versions besides the active one."""
        return len(self.versions) > 1

    def home(self, job_id: str) -> Partition:
        """Where a new job of this id goes."""
        partitions = self.versions[0]
        return partitions[partition_of(job_id, len(partitions))] if len(partitions) > 1 else partitions[0]

    def homes(self, job_id: str) -> list[Partition]:
        """Where a job of this id may stand: one partition a version, the active version's first."""
        return [partitions[partition_of(job_id, len(partitions))] for partitions in self.versions]
