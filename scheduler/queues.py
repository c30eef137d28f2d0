"""What a store tells of a queue, and how long it keeps finished jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from zlib import crc32

from scheduler.errors import ConfigError
from scheduler.jobs import Job
from scheduler.limits import MAX_DELAY, check_number
from scheduler.states import JobState

EXACT_COUNT = 10_000
"""Counts of a state are exact up to here; above, a store may answer this number and mark it as capped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Seconds that finished jobs are kept, by state; 0 = deleted at once. A kept job keeps its id taken."""

    succeeded: float = 0.0
    cancelled: float = 0.0
    dead: float = 30 * 86_400.0

    def __post_init__(self) -> None:
        for name in ("succeeded", "cancelled", "dead"):
            check_number(f"retention.{name}", getattr(self, name), ConfigError, at_most=MAX_DELAY)

    def seconds(self, state: JobState) -> float:
        """How long a job that reached the terminal *state* is kept."""
        return {
            JobState.SUCCEEDED: self.succeeded,
            JobState.CANCELLED: self.cancelled,
            JobState.DEAD: self.dead,
        }[state]


def cursor_of(queue: str, state: JobState, place: str) -> str:
    """A cursor for *place* in the list of *queue* and *state*, which `place_of` takes for that list alone."""
    return f"{_list_number(queue, state):08x}.{place}"


def place_of(queue: str, state: JobState, cursor: object) -> str:
    """The place of a cursor of the same list; `ConfigError` for anything else."""
    number, dot, place = cursor.partition(".") if isinstance(cursor, str) else ("", "", "")
    if not dot or number != f"{_list_number(queue, state):08x}":
        raise ConfigError("cursor", f"was not made by this store for a list of {state.value} jobs of this queue")
    return place


def _list_number(queue: str, state: JobState) -> int:
    return crc32(f"{state.value} {queue}".encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of a list; `cursor` asks for the next one, None = this was the last."""

    jobs: tuple[Job, ...]
    cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStats:
    """
    One version of one queue in numbers.

    counts: every state, zeros included. capped: states whose count is at least the number given. oldest_ready_age:
    seconds since the longest-waiting ready job became ready, None where none is ready.
    """

    queue: str
    version: int
    partitions: int
    paused: bool
    counts: Mapping[JobState, int]
    capped: frozenset[JobState] = frozenset()
    oldest_ready_age: float | None = None
