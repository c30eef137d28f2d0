"""What a store may offer beyond the contract: protocols, found by `isinstance`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Flag, auto
from typing import Final, Literal, Protocol, runtime_checkable

from scheduler.jobs import NewJob
from scheduler.leases import Enqueued
from scheduler.topology import QueueTopology


class WakeReason(Flag):
    """Why a waiter woke up. NONE is false. A store that cannot tell the reasons apart returns ANY."""

    NONE = 0
    JOBS_READY = auto()
    """Work may be ready: a lease is worth a try."""
    EARLIER_DUE_TIME = auto()
    """Work may be due sooner than `promote_due` has said."""
    ANY = JOBS_READY | EARLIER_DUE_TIME


class Waiter(Protocol):
    """Waits for work in some queues. One thread waits; any thread may interrupt or close."""

    def wait(self, timeout: float) -> WakeReason:
        """
        Wait up to *timeout* seconds and return what may have happened since the last wait.

        What happens between two waits is not lost. May wake up spuriously. Raises `BackendUnavailable` while the store
        cannot be reached; the first wait after that returns ANY, since notifications may have been missed.
        """
        ...

    def interrupt(self) -> None:
        """Make the present or next `wait` return at once. Callable from any thread."""
        ...

    def close(self) -> None:
        """Close the connection; a wait under way returns. May be called twice."""
        ...


WAKE_HORIZON: Final = 60.0
"""Seconds: a waiter may stay silent about jobs due later. Workers call `promote_due` at least twice as often."""


@runtime_checkable
class Wakeups(Protocol):
    """
    Ability: notify a waiter of new work within milliseconds.

    Work that is ready, or due within `WAKE_HORIZON`, is notified; what is due later need not be.
    """

    def waiter(self, queues: Sequence[str]) -> Waiter:
        """A waiter on *queues* that connects when first used. The caller closes it."""
        ...


Finished = Literal["refuse", "purge", "move"]
"""What completing a version does with its finished jobs: refuse to complete, delete them, or move them along."""


@runtime_checkable
class TopologyAdmin(Protocol):
    """Ability: queues in numbered versions of so many partitions each, changed live."""

    def topology(self, queue: str) -> QueueTopology:
        """The versions of *queue* now. One that was never used returns what it would be created with."""
        ...

    def promote_queue_version(self, queue: str, version: int, partitions: int) -> QueueTopology:
        """
        Make *version* the active one and every older one draining.

        Versions only grow. A repeat with the same figures returns the topology; another number for a version that
        exists, or a version at or below one that was ever used, raises `TopologyError`.
        """
        ...

    def complete_draining_version(self, queue: str, version: int, *, finished: Finished = "refuse") -> QueueTopology:
        """
        Remove a draining *version* that holds no job.

        `TopologyError` with `.counts` while any live job is in it (or a finished one, unless *finished* says what to do
        with those), and for the active version. A version that is gone already returns the topology.
        """
        ...


@runtime_checkable
class TransactionalEnqueue(Protocol):
    """Ability: enqueue inside the caller's own database transaction."""

    def enqueue_with(self, connection: object, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        """
        As `Backend.enqueue`, on *connection*, and stored when its transaction commits.

        Never commits, rolls back or retries. `ConfigError` for a kind of connection that the store does not know.
        """
        ...
