"""Optional abilities of a store, beyond the contract: protocols, checked with `isinstance`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Flag, auto
from typing import Final, Literal, Protocol, runtime_checkable

from scheduler.jobs import NewJob
from scheduler.leases import Enqueued
from scheduler.topology import QueueTopology


class WakeReason(Flag):
    """Reasons why a waiter woke up. NONE is false. A store that cannot distinguish the reasons returns ANY."""

    NONE = 0
    JOBS_READY = auto()
    """Jobs may be ready, so a lease call may succeed."""
    EARLIER_DUE_TIME = auto()
    """A job may be due earlier than the last `promote_due` reported."""
    ANY = JOBS_READY | EARLIER_DUE_TIME


class Waiter(Protocol):
    """Waiter for work in some queues. One thread waits; any thread may interrupt or close."""

    def wait(self, timeout: float) -> WakeReason:
        """
        Wait up to *timeout* seconds and return what may have happened since the last wait.

        Events between two waits are not lost. May wake up spuriously. Raises `BackendUnavailable` while the store
        cannot be reached; the first wait after that returns ANY, since notifications may have been missed.
        """
        ...

    def interrupt(self) -> None:
        """Make the current or next `wait` return at once. May be called from any thread."""
        ...

    def close(self) -> None:
        """Close the connection and end a wait in progress. May be called twice."""
        ...


WAKE_HORIZON: Final = 60.0
"""
Seconds. A waiter need not report jobs that are due later than this.

Workers therefore call `promote_due` at least twice within this time.
"""


@runtime_checkable
class Wakeups(Protocol):
    """
    Ability to notify a waiter of new work within milliseconds.

    A waiter is notified of jobs that are ready or due within `WAKE_HORIZON`, and not necessarily of jobs due later.
    """

    def waiter(self, queues: Sequence[str]) -> Waiter:
        """Return a waiter on *queues*. It connects on first use, and the caller closes it."""
        ...


Finished = Literal["refuse", "purge", "move"]
"""What to do with the finished jobs of a version to remove: refuse, delete them, or move them to the active version."""


@runtime_checkable
class TopologyAdmin(Protocol):
    """Ability to change the versions and partitions of a queue while it is in use."""

    def topology(self, queue: str) -> QueueTopology:
        """Return the current versions of *queue*; for an unused queue, those that it would be created with."""
        ...

    def promote_queue_version(self, queue: str, version: int, partitions: int) -> QueueTopology:
        """
        Make *version* the active one and every older one draining.

        Version numbers only increase. If *version* exists with the same number of partitions, nothing changes and the
        topology is returned. Raises `TopologyError` if it exists with another number of partitions, or if it does not
        exist and is not above every version that was ever used.
        """
        ...

    def complete_draining_version(self, queue: str, version: int, *, finished: Finished = "refuse") -> QueueTopology:
        """
        Remove a draining *version* that holds no job, and return the topology.

        Raises `TopologyError` for the active version. Also raises it, with the jobs by state in `counts`, while the
        version holds unfinished jobs, or finished jobs if *finished* is "refuse". A version that was removed before
        is no error.
        """
        ...


@runtime_checkable
class TransactionalEnqueue(Protocol):
    """Ability to enqueue inside the caller's own database transaction."""

    def enqueue_with(self, connection: object, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        """
        Enqueue like `Backend.enqueue`, but on *connection*: the jobs exist when its transaction commits.

        Never commits, rolls back or retries. Raises `ConfigError` for a kind of connection that the store does not
        support.
        """
        ...
