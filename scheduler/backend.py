"""
The storage contract: one method for each allowed move of a job. Optional abilities are in `scheduler.abilities`.

`Backend` checks the arguments of every call and passes them to one abstract hook; a store implements the hooks. A
call takes a batch of jobs, and is atomic for each of them. Every call may be repeated after a lost reply without a
second effect. No connection, transaction or type of a store appears in the contract.

All methods may be called from any thread. They raise `ConfigError` for an invalid argument, before anything changes;
`BackendUnavailable` if the store cannot be reached, in which case the call may or may not have taken effect; and
`BackendClosed` after `close()`.

The batches of enqueue and of the methods that settle leases may have any size, zero included: a store splits them into
slices. If a call has several outcomes for one lease, the first is recorded, and the lease is refused for the others.

A queue that the store has never seen is empty, not an error. A call that only names a queue must leave no data behind,
since names may come from requests, without limit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import ClassVar, Final, Self, final

from scheduler.critical import make_critical
from scheduler.errors import ConfigError
from scheduler.jobs import Job, NewJob
from scheduler.leases import (
    Completion,
    Enqueued,
    Failure,
    Lease,
    MoveAnswer,
    Promotion,
    Recovery,
    Renewal,
    Settled,
    check_settled,
)
from scheduler.limits import (
    check_all,
    check_duration,
    check_ids,
    check_limit,
    check_name,
    check_queue,
    check_queues,
    check_state,
    check_token,
    is_possible_id,
)
from scheduler.queues import Page, QueueStats, Retention, cursor_of, place_of
from scheduler.states import JobState

__all__ = ["Backend"]


class Backend(ABC):
    """
    Base class of all stores. The docstring of the module says what holds for every method.

    A store implements `from_url`, `ping`, `close` and the hooks below, which receive checked arguments. A layer around
    another backend overrides the public methods (`METHODS`) instead, so that each call is checked once.
    """

    in_process: ClassVar[bool] = False
    """True if jobs live in the memory of one process, where other processes cannot see them."""

    retention: Retention
    """How long finished jobs are kept. A worker encodes results only if succeeded jobs are kept."""

    def __init_subclass__(cls, **options: object) -> None:
        """Make every public method of *cls* a critical section (see `scheduler.critical`)."""
        super().__init_subclass__(**options)
        make_critical(cls)

    @classmethod
    @abstractmethod
    def from_url(cls, url: str) -> Self:
        """
        Return a backend for *url*, whose query parameters are the options.

        Raises `ConfigError`, which names the part of the URL that is unknown or invalid.
        """

    # ---- Moves

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        """
        Store jobs: → scheduled, or ready if due. Returns one result per job, in order.

        If the store still keeps a job with the same id, in any state, nothing changes and the result holds the stored
        job. Two jobs with the same id in one call count as two calls.
        """
        return self._enqueue(check_all("jobs", jobs, NewJob))

    def promote_due(self, queues: Sequence[str], limit: int) -> Promotion:
        """
        Make up to *limit* due jobs ready: scheduled, retry_wait → ready.

        A store in which a due job is ready without a move moves none, and only returns when the next one is due.
        """
        return self._promote_due(check_queues(queues), check_limit(limit))

    def lease(
        self, queues: Sequence[str], *, token: str, worker_id: str, duration: float, limit: int
    ) -> Sequence[Lease]:
        """
        Lease up to *limit* jobs: ready → leased. Their attempts increase by one.

        Calling again with the same token returns every job still held under it, topped up to *limit*. If nothing is
        held any more, it is a new call.

        Args:
            queues: The queues to lease from, served in turn.
            token: A new one for every call (`new_token()`), the same one only to repeat a call.
            worker_id: Recorded as the owner of the leases.
            duration: Seconds until the leases expire.
            limit: Most jobs to hold under the token.

        Returns:
            The leases. Fewer than *limit* do not mean that no more jobs are ready. None at all means that no job could
            be leased from any of the queues, with one exception: while a waiter of this backend waits in another
            thread, a store may rely on its notifications and skip partitions without one.

        """
        return self._lease(
            check_queues(queues),
            token=check_token(token),
            worker_id=check_name("worker_id", worker_id, ConfigError),
            duration=check_duration(duration),
            limit=check_limit(limit),
        )

    def renew(self, leases: Sequence[Lease], duration: float) -> Renewal:
        """
        Extend leases to *duration* seconds from now: leased → leased. Expired leases not yet recovered are included.

        Jobs of the same lease call that are not named keep their expiry: a request that was served late may have
        leased jobs that no worker knows of. A store may keep one expiry for a whole lease call, so callers renew all
        jobs that they hold from one call together.
        """
        seconds = check_duration(duration)
        held, refused = check_settled("leases", leases, Lease)
        return Renewal(refused=[*refused, *self._renew(held, seconds)])

    def complete(self, completions: Sequence[Completion]) -> Sequence[Lease]:
        """
        Record success: leased → succeeded.

        Returns the refused leases: those whose token does not hold the job, or no longer holds it.
        """
        return self._settle("completions", completions, Completion, self._complete)

    def retry(self, failures: Sequence[Failure]) -> Sequence[Lease]:
        """
        Put jobs back: leased → retry_wait, due after each failure's delay. Returns the refused leases.

        The caller decides whether to retry; the store ignores max_retries. Without a delay, a job may become ready at
        once.
        """
        return self._settle("failures", failures, Failure, self._retry)

    def bury(self, failures: Sequence[Failure]) -> Sequence[Lease]:
        """Give up on jobs: leased → dead. Returns the refused leases."""
        return self._settle("failures", failures, Failure, self._bury)

    def release(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        """
        Give jobs back without using an attempt: leased → ready. Returns the refused leases.

        A released job is first in line, on stores that can do that.
        """
        return self._settle("leases", leases, Lease, self._release)

    def recover_expired(self, queues: Sequence[str], limit: int) -> Recovery:
        """
        Recover about *limit* expired leases: leased → ready, or dead if attempts > max_retries.

        The crashes of each job increase by one, and an error of kind LeaseExpired is recorded. A store that leases in
        groups recovers whole groups, so one call may move more jobs than *limit*.
        """
        return self._recover_expired(check_queues(queues), check_limit(limit))

    # ---- Operators' moves

    def cancel(self, queue: str, ids: Sequence[str]) -> Sequence[MoveAnswer]:
        """Cancel waiting jobs: scheduled, ready, retry_wait → cancelled. Returns one result per id, in order."""
        return self._move_each(queue, ids, self._cancel)

    def requeue(self, queue: str, ids: Sequence[str]) -> Sequence[MoveAnswer]:
        """
        Give dead jobs another chance: dead → ready. Returns one result per id, in order.

        Attempts and crashes become 0; errors are kept.
        """
        return self._move_each(queue, ids, self._requeue)

    def pause(self, queue: str) -> None:
        """
        Stop leasing from *queue*, in all processes. Other moves continue.

        A lease call that begins after this returned leases no job of the queue.
        """
        self._pause(check_queue(queue))

    def resume(self, queue: str) -> None:
        """End a pause and wake the waiters of *queue*. Does no harm if the queue is not paused."""
        self._resume(check_queue(queue))

    def purge(self, queue: str, state: JobState, limit: int) -> int:
        """
        Delete up to *limit* jobs in *state* and return how many were deleted.

        Raises `ConfigError` for the state leased.
        """
        name, wanted, most = check_queue(queue), check_state(state), check_limit(limit)
        if wanted is JobState.LEASED:
            raise ConfigError("state", "leased jobs belong to the workers that run them; they cannot be purged")
        return self._purge(name, wanted, most)

    def trim(self, queues: Sequence[str], limit: int) -> int:
        """Delete up to *limit* finished jobs whose retention has ended, and return how many were deleted."""
        return self._trim(check_queues(queues), check_limit(limit))

    # ---- Reads

    def get(self, queue: str, ids: Sequence[str]) -> Mapping[str, Job]:
        """Return the stored jobs among *ids*, by id. Ids without a stored job are left out."""
        return self._get(check_queue(queue), [id for id in check_ids(ids) if is_possible_id(id)])

    def list(self, queue: str, state: JobState, *, cursor: str | None = None, limit: int = 100) -> Page:
        """
        Return a page of the jobs of *queue* in *state*, in an order that the store chooses.

        Reading all pages finds every job that stays in the state exactly once, even while others leave it. Jobs that
        enter the state meanwhile may be missed or repeated.

        Args:
            queue: Name of the queue.
            state: The state to list.
            cursor: `Page.cursor` of the page before; None = the first page.
            limit: Most jobs in the page.

        Raises:
            ConfigError: An argument is invalid, or *cursor* is not from this list of this store.

        """
        name, wanted, most = check_queue(queue), check_state(state), check_limit(limit)
        place = None if cursor is None else place_of(name, wanted, cursor)
        jobs, following = self._list(name, wanted, place, most)
        return Page(jobs=tuple(jobs), cursor=None if following is None else cursor_of(name, wanted, following))

    def stats(self, queues: Sequence[str] | None = None) -> Sequence[QueueStats]:
        """
        Return the statistics of *queues*, one result per queue and version, sorted by both.

        None = every queue that the store has. A queue that is named is always in the result.
        """
        return self._stats(None if queues is None else check_queues(queues))

    # ---- Connection

    @abstractmethod
    def ping(self) -> None:
        """Return once the store has replied."""

    @abstractmethod
    def close(self) -> None:
        """Close every connection and end every wait. May be called twice."""

    # ---- Hooks: the same calls, with checked arguments

    @abstractmethod
    def _enqueue(self, jobs: Sequence[NewJob]) -> Sequence[Enqueued]: ...

    @abstractmethod
    def _promote_due(self, queues: Sequence[str], limit: int) -> Promotion: ...

    @abstractmethod
    def _lease(
        self, queues: Sequence[str], *, token: str, worker_id: str, duration: float, limit: int
    ) -> Sequence[Lease]: ...

    @abstractmethod
    def _renew(self, leases: Sequence[Lease], duration: float) -> Sequence[Lease]:
        """Return the refused leases."""

    @abstractmethod
    def _complete(self, completions: Sequence[Completion]) -> Sequence[Lease]: ...

    @abstractmethod
    def _retry(self, failures: Sequence[Failure]) -> Sequence[Lease]: ...

    @abstractmethod
    def _bury(self, failures: Sequence[Failure]) -> Sequence[Lease]: ...

    @abstractmethod
    def _release(self, leases: Sequence[Lease]) -> Sequence[Lease]: ...

    @abstractmethod
    def _recover_expired(self, queues: Sequence[str], limit: int) -> Recovery: ...

    @abstractmethod
    def _cancel(self, queue: str, ids: Sequence[str]) -> Sequence[MoveAnswer]: ...

    @abstractmethod
    def _requeue(self, queue: str, ids: Sequence[str]) -> Sequence[MoveAnswer]: ...

    @abstractmethod
    def _pause(self, queue: str) -> None: ...

    @abstractmethod
    def _resume(self, queue: str) -> None: ...

    @abstractmethod
    def _purge(self, queue: str, state: JobState, limit: int) -> int: ...

    @abstractmethod
    def _trim(self, queues: Sequence[str], limit: int) -> int: ...

    @abstractmethod
    def _get(self, queue: str, ids: Sequence[str]) -> Mapping[str, Job]: ...

    @abstractmethod
    def _list(self, queue: str, state: JobState, place: str | None, limit: int) -> tuple[Sequence[Job], str | None]:
        """
        Return up to *limit* jobs and the place where the next page begins, None if this page is the last.

        A place is text that only the store interprets. Raises `ConfigError` for one that the store cannot have made.
        """

    @abstractmethod
    def _stats(self, queues: Sequence[str] | None) -> Sequence[QueueStats]: ...

    # ---- Shared by the public methods

    @final
    def _settle(
        self,
        field: str,
        items: Sequence[Settled],
        kind: type[Settled],
        hook: Callable[[Sequence[Settled]], Sequence[Lease]],
    ) -> Sequence[Lease]:
        possible, refused = check_settled(field, items, kind)
        return [*refused, *hook(possible)] if refused else hook(possible)

    @final
    def _move_each(
        self, queue: str, ids: Sequence[str], hook: Callable[[str, Sequence[str]], Sequence[MoveAnswer]]
    ) -> Sequence[MoveAnswer]:
        name, asked = check_queue(queue), check_ids(ids)
        possible = [id for id in asked if is_possible_id(id)]
        moved = hook(name, possible)
        if len(possible) == len(asked):
            return moved
        rest = iter(moved)
        return [next(rest) if is_possible_id(id) else MoveAnswer(id=id, moved=False, state=None) for id in asked]


METHODS: Final = tuple(
    name for name, member in vars(Backend).items() if isinstance(member, FunctionType) and not name.startswith("_")
)
"""The public methods of `Backend`, which a layer around another backend overrides."""

make_critical(Backend)
