"""Statistics of queues, pages of jobs, and how long finished jobs are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from zlib import crc32

from scheduler.errors import ConfigError
from scheduler.jobs import Job
from scheduler.limits import MAX_DELAY, check_number
from scheduler.states import JobState

__all__ = ["QueueStats", "Retention"]

EXACT_COUNT = 10_000
"""Counts of a state are exact up to this number. Above it, a store may return this number and mark it as capped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How many seconds finished jobs are kept; 0 = deleted at once. While a job is kept, its id stays in use."""

    succeeded: float = 0.0
    """For jobs that succeeded, together with their results."""

    cancelled: float = 0.0
    """For jobs that were cancelled."""

    dead: float = 30 * 86_400.0
    """For jobs that are dead."""

    def __post_init__(self) -> None:
        for name in ("succeeded", "cancelled", "dead"):
            check_number(f"retention.{name}", getattr(self, name), ConfigError, at_most=MAX_DELAY)

    def seconds(self, state: JobState) -> float:
        """Return how many seconds a finished job in *state* is kept."""
        return {
            JobState.SUCCEEDED: self.succeeded,
            JobState.CANCELLED: self.cancelled,
            JobState.DEAD: self.dead,
        }[state]


def cursor_of(queue: str, state: JobState, place: str) -> str:
    """Return a cursor for *place*. `place_of` accepts it only for the same queue and state."""
    return f"{_list_number(queue, state):08x}.{place}"


def place_of(queue: str, state: JobState, cursor: object) -> str:
    """Return the place in *cursor*. Raises `ConfigError` unless it belongs to a list of the same queue and state."""
    number, dot, place = cursor.partition(".") if isinstance(cursor, str) else ("", "", "")
    if not dot or number != f"{_list_number(queue, state):08x}":
        raise ConfigError("cursor", f"was not made by this store for a list of {state.value} jobs of this queue")
    return place


def _list_number(queue: str, state: JobState) -> int:
    return crc32(f"{state.value} {queue}".encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Page of a list of jobs."""

    jobs: tuple[Job, ...]
    cursor: str | None
    """Argument of `Backend.list` for the next page. None = this is the last page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStats:
    """Statistics of one version of a queue."""

    queue: str
    version: int
    partitions: int
    paused: bool
    counts: Mapping[JobState, int]
    """Number of jobs by state. Every state is present."""

    capped: frozenset[JobState] = frozenset()
    """States that may hold more jobs than `counts` says."""

    oldest_ready_age: float | None = None
    """Seconds since the oldest ready job became ready. None = no job is ready."""
