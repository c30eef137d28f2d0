"""
The storage contract: one method per lawful move, and the abilities that a store may offer besides.

Batch first and atomic per job. Every call may be repeated after a lost answer without a second effect. No connection,
transaction or store type crosses the contract. All methods may be called from any thread and raise
`BackendUnavailable` when the store does not answer (the call may or may not have taken effect), `BackendClosed` after
`close()`, and `ConfigError` for a bad argument, before anything is touched.

Batches of enqueue and of the settle methods may be of any size, empty included: a store slices them where it must.
Queues are named by sequences; those that the store has never seen are empty, not an error. Names that are only asked
for leave nothing behind: they may come from requests, without end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import Flag, auto
from typing import ClassVar, Final, Literal, Protocol, Self, runtime_checkable

from scheduler.critical import make_critical
from scheduler.jobs import Job, NewJob
from scheduler.leases import Completion, Enqueued, Failure, Lease, MoveAnswer, Promotion, Recovery, Renewal
from scheduler.queues import Page, QueueStats, Retention
from scheduler.states import JobState
from scheduler.topology import QueueTopology


class Backend(ABC):
    """Where jobs are stored. See the module's text for what holds for every method."""

    in_process: ClassVar[bool] = False
    """True where jobs live in the memory of one process, so that other processes would not see them."""

    def __init_subclass__(cls, **options: object) -> None:
        """Make every public method of *cls* a critical section: see `scheduler.critical`."""
        super().__init_subclass__(**options)
        make_critical(cls)

    retention: Retention
    """How long finished jobs are kept. A worker encodes results only where succeeded ones are."""

    @classmethod
    @abstractmethod
    def from_url(cls, url: str) -> Self:
        """A backend for *url*, options as query parameters. `ConfigError` names a part that is not understood."""

    @abstractmethod
    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        """
        → scheduled, or ready when due. One answer per job, in order.

        An id that the store still keeps changes nothing, whatever its state; the answer is then the stored job.
        Two jobs of one call with the same id count as two calls.
        """

    @abstractmethod
    def promote_due(self, queues: Sequence[str], limit: int) -> Promotion:
        """Scheduled, retry_wait → ready: at most *limit* jobs that are due. A store that derives ready moves 0."""

    @abstractmethod
    def lease(
        self, queues: Sequence[str], *, token: str, worker_id: str, duration: float, limit: int
    ) -> Sequence[Lease]:
        """
        Ready → leased for *duration* seconds, at most *limit* jobs, the queues served in turn.

        *token* is new for every call (`new_token()`). A repeat with the same token answers with all jobs still held
        under it and may add up to *limit* in all; once none is held it is a new call. A short answer does not mean that
        no more is ready; an empty one means that nothing was leasable in any of the queues, as far as a store
        knows that relies on wake-ups while a waiter of this backend waits in another thread. Attempts go up by one.
        """

    @abstractmethod
    def renew(self, leases: Sequence[Lease], duration: float) -> Renewal:
        """
        Leased → leased: they expire *duration* seconds from now. Expired ones that nobody recovered are renewed too.

        Jobs of the same lease call that are not named keep the expiry that they have: a request that was served late
        may have leased jobs that no worker knows of. A store may keep one expiry for a whole lease call, so callers
        renew all jobs they hold of one together.
        """

    @abstractmethod
    def complete(self, completions: Sequence[Completion]) -> Sequence[Lease]:
        """Leased → succeeded. Answers the leases that were refused, since their token does not hold the job (now)."""

    @abstractmethod
    def retry(self, failures: Sequence[Failure]) -> Sequence[Lease]:
        """Leased → retry_wait, due after each failure's delay; max_retries is not looked at. Answers the refused."""

    @abstractmethod
    def bury(self, failures: Sequence[Failure]) -> Sequence[Lease]:
        """Leased → dead. Answers the refused leases."""

    @abstractmethod
    def release(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        """Leased → ready, the attempt given back; first in line where the store can. Answers the refused leases."""

    @abstractmethod
    def recover_expired(self, queues: Sequence[str], limit: int) -> Recovery:
        """
        Leased → ready, or dead where attempts > max_retries: about *limit* leases that have expired.

        Crashes go up by one and an error of kind LeaseExpired is recorded. A store that leases in groups recovers
        whole groups, so that one call's jobs may pass the limit.
        """

    @abstractmethod
    def cancel(self, queue: str, ids: Sequence[str]) -> Sequence[MoveAnswer]:
        """Scheduled, ready, retry_wait → cancelled. One answer per id, in order."""

    @abstractmethod
    def requeue(self, queue: str, ids: Sequence[str]) -> Sequence[MoveAnswer]:
        """Dead → ready, attempts and crashes 0, errors kept. One answer per id, in order."""

    @abstractmethod
    def get(self, queue: str, ids: Sequence[str]) -> Mapping[str, Job]:
        """The stored jobs among *ids*, by id."""

    @abstractmethod
    def list(self, queue: str, state: JobState, *, cursor: str | None = None, limit: int = 100) -> Page:
        """
        A page of the queue's jobs in *state*, in an order of the store's own. None as cursor starts.

        A walk finds each job once that stays in the state, also while others leave it; of those that enter the state
        meanwhile it may miss or repeat some. A cursor that the store did not make for a list of the same queue and
        state raises `ConfigError`.
        """

    @abstractmethod
    def stats(self, queues: Sequence[str] | None = None) -> Sequence[QueueStats]:
        """Per queue and version, sorted by both. None = every queue that the store knows; named ones always answer."""

    @abstractmethod
    def pause(self, queue: str) -> None:
        """A lease call begun after this returned gets nothing of *queue*, in any process. All other moves go on."""

    @abstractmethod
    def resume(self, queue: str) -> None:
        """Ends a pause and wakes the waiters of *queue*. Harmless where none is paused."""

    @abstractmethod
    def purge(self, queue: str, state: JobState, limit: int) -> int:
        """Delete up to *limit* jobs in *state* and answer how many went. Leased is refused with `ConfigError`."""

    @abstractmethod
    def trim(self, queues: Sequence[str], limit: int) -> int:
        """Delete up to *limit* finished jobs that retention no longer keeps and answer how many went."""

    @abstractmethod
    def ping(self) -> None:
        """Return when the store answers."""

    @abstractmethod
    def close(self) -> None:
        """Let go of every connection and end every wait. May be called twice."""


class WakeReason(Flag):
    """Why a waiter woke up. NONE is false. A store that cannot tell the reasons apart returns ANY."""

    NONE = 0
    JOBS_READY = auto()
    """Work may be ready: a lease is worth a try."""
    EARLIER_DUE_TIME = auto()
    """Work may be due sooner than `promote_due` has said."""
    ANY = JOBS_READY | EARLIER_DUE_TIME


class Waiter(Protocol):
    """Waits for news of some queues. One thread waits; any thread may interrupt or close."""

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
        """Let go of the connection; a wait under way returns. May be called twice."""
        ...


WAKE_HORIZON: Final = 60.0
"""Seconds: a waiter may stay silent about jobs due later. Workers call `promote_due` at least twice as often."""


@runtime_checkable
class Wakeups(Protocol):
    """
    Ability: tell a waiter about new work within milliseconds.

    Work that is ready, or due within `WAKE_HORIZON`, must be told of; what is due later need not be.
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
        """The versions of *queue* now. One that was never used answers with what it would be created with."""
        ...

    def promote_queue_version(self, queue: str, version: int, partitions: int) -> QueueTopology:
        """
        Make *version* the active one and every older one draining.

        Versions only grow. A repeat with the same figures answers the topology; another number for a version that
        exists, or a version at or below one that was ever used, raises `TopologyError`.
        """
        ...

    def complete_draining_version(self, queue: str, version: int, *, finished: Finished = "refuse") -> QueueTopology:
        """
        Remove a draining *version* that holds no job.

        `TopologyError` with `.counts` while any live job is in it (or a finished one, unless *finished* says what to do
        with those), and for the active version. A version that is gone already answers the topology.
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
