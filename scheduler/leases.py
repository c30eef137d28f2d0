"""Leases, their outcomes, and the results of batched calls."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from scheduler.errors import ConfigError
from scheduler.jobs import ErrorDetail, Job
from scheduler.limits import MAX_DELAY, TOKEN, check_all, check_bytes, check_number, is_possible_id
from scheduler.states import JobState

__all__ = ["Enqueued"]

_SEPARATOR = "\x01"  # never part of a name, since names hold no control characters
_MOST = 2**63 - 1  # no store has a larger version or partition, and Python does not write any number as text
_IMPOSSIBLE = re.compile("[\x00\x02-\x1f\x7f-\x9f\ud800-\udfff]")  # never part of a name; separators are counted


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lease:
    """
    Right to run a job until `expires_at`, by the store's clock. The token proves it.

    All jobs of one lease call share a token. Two leases are equal if their queue, job id and token are equal, even if
    the job has changed.
    """

    job: Job
    token: str
    expires_at: datetime

    @property
    def key(self) -> tuple[str, str, str]:
        """Queue, job id and token."""
        return self.job.queue, self.job.id, self.token

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, Lease) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """A lease whose job has succeeded."""

    lease: Lease
    result: bytes | None = None
    """The encoded return value, None if there is none. Stored only if retention keeps succeeded jobs."""

    def __post_init__(self) -> None:
        if self.result is not None:
            object.__setattr__(self, "result", check_bytes("result", self.result))


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A lease whose attempt has failed, or whose job is put back for later."""

    lease: Lease
    delay: float = 0.0
    """Seconds until the next attempt. `bury` ignores it."""

    error: ErrorDetail | None = None
    """The error to record. None = record none."""

    counted: bool = True
    """False = give the attempt back."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "delay", check_number("delay", self.delay, at_most=MAX_DELAY))
        if self.error is not None and type(self.error) is not ErrorDetail:
            raise ConfigError("error", f"must be an ErrorDetail, not {type(self.error).__name__}")
        if type(self.counted) is not bool:
            raise ConfigError("counted", f"must be True or False, not {type(self.counted).__name__}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueued:
    """Result of enqueueing one job."""

    job: Job
    """The job as it is stored."""

    is_new: bool
    """True if this call stored it, or an earlier call with the same `NewJob`. False if its id was in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """Result of `promote_due`."""

    moved: int
    """Number of jobs that became ready."""

    next_due: float | None
    """Seconds until the next job is due; 0 = now, None = no job waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """Result of `renew`."""

    refused: Sequence[Lease] = ()
    """Leases that no longer hold their job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """Result of `recover_expired`."""

    ready: int
    """Number of jobs that became ready."""

    dead: int
    """Number of jobs that are dead."""

    next_expiry: float | None
    """Seconds until the next lease expires; 0 = now, None = there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveAnswer:
    """Result of `cancel` or `requeue` for one id."""

    id: str
    moved: bool
    """True if this call moved the job."""

    state: JobState | None
    """The job's state after the call. None = there is no such job."""


Settled = TypeVar("Settled", bound=Lease | Completion | Failure)


def check_settled(field: str, items: Sequence[Settled], kind: type[Settled]) -> tuple[Sequence[Settled], list[Lease]]:
    """
    Return the items of a call that settles or renews, and separately the leases that no lease call can have returned.

    The latter hold nothing. They are refused without asking the store, which might not accept their characters.
    """
    checked = check_all(field, items, kind)
    leases = [item if isinstance(item, Lease) else item.lease for item in checked]
    if _are_possible(leases):
        return checked, []
    possible = [_is_possible(field, lease) for lease in leases]
    return (
        [item for item, yes in zip(checked, possible, strict=True) if yes],
        [lease for lease, yes in zip(leases, possible, strict=True) if not yes],
    )


def _is_possible(field: str, lease: object) -> bool:
    job, token = getattr(lease, "job", None), getattr(lease, "token", None)
    if (
        not isinstance(job, Job)
        or not all(isinstance(text, str) for text in (job.queue, job.id))
        or not isinstance(token, str)
        # Exactly int: a subclass may have its own text, which would become part of a key.
        or {type(job.queue_version), type(job.partition)} != {int}
    ):
        raise ConfigError(field, "must contain leases as lease() returns them")
    places = job.queue_version, job.partition
    return (
        is_possible_id(job.queue)
        and is_possible_id(job.id)
        and min(places) >= 0
        and max(places) <= _MOST
        and TOKEN.fullmatch(token) is not None
    )


def _are_possible(leases: Sequence[Lease]) -> bool:
    """Return True if `_is_possible` holds for all leases. Faster, since every settle call of a worker needs it."""
    try:
        jobs = [lease.job for lease in leases]
        queues = {job.queue for job in jobs}
        places = {job.queue_version for job in jobs} | {job.partition for job in jobs}
        tokens = {lease.token for lease in leases}
        ids = _SEPARATOR.join([job.id for job in jobs])
        return (
            ids.count(_SEPARATOR) == max(0, len(leases) - 1)
            and _IMPOSSIBLE.search(ids) is None
            and all(map(is_possible_id, queues))
            and set(map(type, places)) <= {int}
            and min(places, default=0) >= 0
            and max(places, default=0) <= _MOST
            and all(map(TOKEN.fullmatch, tokens))
        )
    except (AttributeError, TypeError):  # not made by a store
        return False
