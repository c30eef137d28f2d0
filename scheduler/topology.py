"""Queue versions and partitions: how a queue is divided, and how that changes while it is in use."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from zlib import crc32

from scheduler.limits import check_count

MAX_PARTITIONS = 256


class VersionState(StrEnum):
    """State of a queue version."""

    ACTIVE = "active"
    """The version takes new jobs. Each queue has exactly one active version."""
    DRAINING = "draining"
    """The version takes no new jobs, and is served until it is empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueVersion:
    """One version of a queue. Its number of partitions never changes."""

    version: int
    partitions: int
    state: VersionState


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTopology:
    """Versions of a queue."""

    queue: str
    epoch: int
    """Number that grows with every change of the topology."""

    versions: tuple[QueueVersion, ...]
    """All versions that may hold jobs, ascending. One is active."""

    @property
    def active(self) -> QueueVersion:
        """The version that takes new jobs."""
        return next(version for version in self.versions if version.state is VersionState.ACTIVE)

    @property
    def draining(self) -> tuple[QueueVersion, ...]:
        """The versions that take no new jobs, oldest first."""
        return tuple(version for version in self.versions if version.state is VersionState.DRAINING)


def partition_of(job_id: str, partitions: int) -> int:
    """Return the partition of a job, by the CRC-32 of its id: Python's own hash differs between processes."""
    return crc32(job_id.encode()) % partitions


def check_version(version: object) -> int:
    """Return the number of a queue version, 1 or more."""
    return check_count("version", version, at_least=1)


def check_partitions(partitions: object) -> int:
    """Return the number of partitions of a version, 1 to 256."""
    return check_count("partitions", partitions, at_least=1, at_most=MAX_PARTITIONS)
