"""
The storage contract: one method for each lawful move. `scheduler.abilities` has what a store may offer beyond it.

`Backend` checks the arguments of every call and passes them to one abstract hook; a store implements the hooks. Calls
are batched, and atomic for each job. Every call may be repeated after a lost reply without a second effect. No
connection, transaction or type of a store crosses the contract.

All methods may be called from any thread. They raise `ConfigError` for a bad argument, before anything is touched;
`BackendUnavailable` when the store cannot be reached, and then the call may or may not have taken effect; and
`BackendClosed` after `close()`.

Batches of enqueue and of the methods that settle may have any size, none included: a store cuts them into slices. Of
several outcomes for one lease in a call that settles, the first is recorded; for each other the lease is refused.
A queue that the store has never seen is empty, not an error. Naming a queue in a call leaves nothing behind, since
names may come from requests, without end.
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
    Where jobs are stored. The module's text says what holds for every method.

    A store implements `from_url`, `ping`, `close` and the hooks below, whose arguments have been checked. A layer
    around another backend overrides the public methods (`METHODS`) instead, so that each call is checked once.
    """

    in_process: ClassVar[bool] = False
    """True where jobs live in the memory of one process, so that other processes do not see them."""

    retention: Retention
    """How long finished jobs are kept. A worker encodes results only where succeeded jobs are kept."""

    def __init_subclass__(cls, **options: object) -> None:
        """Make every public method of *cls* a critical section: see `scheduler.critical`."""
        super().__init_subclass__(**options)
        make_critical(cls)

    @classmethod
    @abstractmethod
    def from_url(cls, url: str) -> Self:
        """Return a backend for *url*, options as query parameters. `ConfigError` names a part that it does not know."""

    # ---- Moves

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        """
        → scheduled, or ready when due. Returns one result per job, in order.

        An id that the store still keeps changes nothing, whatever its state; the result then holds the stored job.
        Two jobs of one call with the same id count as two calls.
        """
        return self._enqueue(check_all("jobs", jobs, NewJob))

    def promote_due(self, queues: Sequence[str], limit: int) -> Promotion:
        """Scheduled, retry_wait → ready: at most *limit* jobs that are due. A store that derives ready moves 0."""
        return self._promote_due(check_queues(queues), check_limit(limit))

    def lease(
        self, queues: Sequence[str], *, token: str, worker_id: str, duration: float, limit: int
    ) -> Sequence[Lease]:
        """
        Ready → leased for *duration* seconds, at most *limit* jobs, the queues served in turn.

        *token* is new for every call (`new_token()`). Calling again with the same token returns every job still held
        under it, topped up to *limit*. If nothing is held any more, it is a new call. A short result does not mean that
        no more is ready. An empty one means that nothing was leasable in any of the queues; a store that relies on
        wake-ups may know less while a waiter of this backend waits in another thread. Attempts go up by one.
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
        Leased → leased: they expire *duration* seconds from now. Expired ones that nobody recovered are renewed too.

        Jobs of the same lease call that are not named keep the expiry that they have: a request that was served late
        may have leased jobs that no worker knows of. A store may keep one expiry for a whole lease call, so callers
        renew all jobs they hold of one together.
        """
        seconds = check_duration(duration)
        held, refused = check_settled("leases", leases, Lease)
        return Renewal(refused=[*refused, *self._renew(held, seconds)])

    def complete(self, completions: Sequence[Completion]) -> Sequence[Lease]:
        """Leased → succeeded. Returns the refused leases: those whose token does not hold the job (any more)."""
        return self._settle("completions", completions, Completion, self._complete)

    def retry(self, failures: Sequence[Failure]) -> Sequence[Lease]:
        """
        Leased → retry_wait, due after each failure's delay. Returns the refused leases.

        The caller decides whether to retry: max_retries is not looked at.
        """
        return self._settle("failures", failures, Failure, self._retry)

    def bury(self, failures: Sequence[Failure]) -> Sequence[Lease]:
        """Leased → dead. Returns the refused leases."""
        return self._settle("failures", failures, Failure, self._bury)

    def release(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        """Leased → ready, the attempt given back, first in line where the store can. Returns the refused leases."""
        return self._settle("leases", leases, Lease, self._release)

    def recover_expired(self, queues: Sequence[str], limit: int) -> Recovery:
        """
        Leased → ready, or dead where attempts > max_retries: about *limit* leases that have expired.

        Crashes go up by one and an error of kind LeaseExpired is recorded. A store that leases in groups recovers
        whole groups, so that one call may move more jobs than the limit.
        """
        return self._recover_expired(check_queues(queues), check_limit(limit))

    # ---- Operators' moves

    def cancel(self, queue: str, ids: Sequence[str]) -> Sequence[MoveAnswer]:
        """Scheduled, ready, retry_wait → cancelled. Returns one result per id, in order."""
        return self._move_each(queue, ids, self._cancel)

    def requeue(self, queue: str, ids: Sequence[str]) -> Sequence[MoveAnswer]:
        """Dead → ready with attempts and crashes 0; errors are kept. Returns one result per id, in order."""
        return self._move_each(queue, ids, self._requeue)

    def pause(self, queue: str) -> None:
        """A lease call that begins after this returned gets nothing of *queue*, in any process. Other moves go on."""
        self._pause(check_queue(queue))

    def resume(self, queue: str) -> None:
        """End a pause and wake the waiters of *queue*. Harmless where the queue is not paused."""
        self._resume(check_queue(queue))

    def purge(self, queue: str, state: JobState, limit: int) -> int:
        """Delete up to *limit* jobs in *state* and return how many were deleted. `ConfigError` for leased."""
        name, wanted, most = check_queue(queue), check_state(state), check_limit(limit)
        if wanted is JobState.LEASED:
            raise ConfigError("state", "leased jobs belong to the workers that run them; they cannot be purged")
        return self._purge(name, wanted, most)

    def trim(self, queues: Sequence[str], limit: int) -> int:
        """Delete up to *limit* finished jobs that retention no longer keeps and return how many were deleted."""
        return self._trim(check_queues(queues), check_limit(limit))

    # ---- Reads

    def get(self, queue: str, ids: Sequence[str]) -> Mapping[str, Job]:
        """Return the stored jobs among *ids*, by id."""
        return self._get(check_queue(queue), [id for id in check_ids(ids) if is_possible_id(id)])

    def list(self, queue: str, state: JobState, *, cursor: str | None = None, limit: int = 100) -> Page:
        """
        Return a page of the queue's jobs in *state*, in an order of the store's own. None as cursor starts.

        A walk finds each job once that stays in the state, also while others leave it; of those that enter the state
        meanwhile it may miss or repeat some. A cursor that the store did not make for a list of the same queue and
        state raises `ConfigError`.
        """
        name, wanted, most = check_queue(queue), check_state(state), check_limit(limit)
        place = None if cursor is None else place_of(name, wanted, cursor)
        jobs, following = self._list(name, wanted, place, most)
        return Page(jobs=tuple(jobs), cursor=None if following is None else cursor_of(name, wanted, following))

    def stats(self, queues: Sequence[str] | None = None) -> Sequence[QueueStats]:
        """
        Return the numbers of each queue and version, sorted by both.

        None = every queue that the store knows. A queue that is named is always in the result.
        """
        return self._stats(None if queues is None else check_queues(queues))

    # ---- Life

    @abstractmethod
    def ping(self) -> None:
        """Return when the store replies."""

    @abstractmethod
    def close(self) -> None:
        """Close every connection and end every wait. May be called twice."""

    # ---- Hooks: the same, with arguments that were checked

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
        Return some jobs and the place after them, None where no more follow.

        A place is text of the store's own. `ConfigError` for one that it cannot have made.
        """

    @abstractmethod
    def _stats(self, queues: Sequence[str] | None) -> Sequence[QueueStats]: ...

    # ---- What the public methods share

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
"""The public methods of `Backend`: what a layer around a backend overrides."""

make_critical(Backend)
