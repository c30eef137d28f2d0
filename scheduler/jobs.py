"""Jobs: `NewJob`, as a producer makes it, and `Job`, as a store returns it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import IntEnum
from typing import Final, NoReturn, cast

from scheduler.clock import later
from scheduler.errors import ConfigError, InvalidJob
from scheduler.identity import id_for_key, new_id
from scheduler.limits import (
    MAX_DELAY,
    MAX_ERROR_KIND,
    MAX_ERROR_MESSAGE,
    MAX_ERROR_TRACEBACK,
    check_bytes,
    check_count,
    check_metadata,
    check_moment,
    check_name,
    check_number,
    clean_text,
)
from scheduler.retry import RetryPolicy, check_policy
from scheduler.states import JobState

__all__ = ["ErrorRecord", "Job", "NewJob", "Priority"]

DEFAULT_QUEUE = "default"
DEFAULT_MAX_RETRIES = 3
DEFAULT_TIMEOUT = 30.0  # seconds

# Typed as text, since __post_init__ replaces it with an id: readers of `job.id` need not handle None.
_TO_BE_MADE = cast("str", None)


class Priority(IntEnum):
    """Priority of a job; lower is sooner. Within one partition, no job starts while a more urgent one is ready."""

    URGENT = 0
    HIGH = 1
    NORMAL = 2
    LOW = 3


class _ReadOnly(dict[str, str]):
    """Metadata of a `NewJob`: read-only, since a change would bypass the checks; a dict, so it can be pickled."""

    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("the metadata of a NewJob cannot be changed; dataclasses.replace() makes another job")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[_ReadOnly], tuple[dict[str, str]]]:
        return _ReadOnly, (dict(self),)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """
    A job to be stored. Invalid values raise `InvalidJob`, which names the field.

    Stores refuse objects of a subclass, which could bypass the checks.

    Args:
        type: Name of the handler to run.
        payload: The handler's input, encoded.
        queue: The queue to store it in.
        run_at: When to run, as an aware datetime. A time in the past is due now. Not together with *delay*.
        delay: Seconds until the job is due, counted from storing by the store's clock. Not together with *run_at*.
        priority: Order among the ready jobs of a partition.
        max_retries: Retries after the first attempt; 0 = a single attempt.
        timeout: Seconds that one attempt may take.
        retry_policy: None = the handler's policy, or else the worker's.
        id: Unique within the queue. None = a UUIDv7, or derived from *idempotency_key*.
        idempotency_key: While the queue keeps a job with the same key, no second one is stored. Not together with *id*.
        metadata: Maps text to text, at most 8 KiB in total. Stored with the job and not interpreted. A read-only copy
            is kept.

    """

    type: str
    payload: bytes = b""
    queue: str = DEFAULT_QUEUE
    run_at: datetime | None = None
    delay: float | None = None
    priority: Priority = Priority.NORMAL
    max_retries: int = DEFAULT_MAX_RETRIES
    timeout: float = DEFAULT_TIMEOUT
    retry_policy: RetryPolicy | None = None
    id: str = _TO_BE_MADE
    idempotency_key: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    nonce: str = field(init=False, repr=False, compare=False)
    """16 hexadecimal digits, by which a store tells a repeated enqueue of this object from another job with its id."""

    def __post_init__(self) -> None:
        keep = object.__setattr__
        keep(self, "type", check_name("type", self.type))
        keep(self, "queue", check_name("queue", self.queue))
        keep(self, "payload", check_bytes("payload", self.payload, InvalidJob))
        if self.run_at is not None:
            if self.delay is not None:
                raise InvalidJob("delay", "must not be given together with run_at")
            keep(self, "run_at", check_moment("run_at", self.run_at))
        elif self.delay is not None:
            keep(self, "delay", check_number("delay", self.delay, InvalidJob))
        keep(self, "priority", Priority(check_count("priority", self.priority, InvalidJob, at_most=max(Priority))))
        if self.retry_policy is not None:
            check_policy(self.retry_policy, InvalidJob)
        keep(self, "max_retries", check_count("max_retries", self.max_retries, InvalidJob))  # may come from the policy
        keep(self, "timeout", check_number("timeout", self.timeout, InvalidJob, at_least=0.001, at_most=MAX_DELAY))
        if self.idempotency_key is not None:
            keep(self, "idempotency_key", check_name("idempotency_key", self.idempotency_key))
        keep(self, "id", self._checked_id())
        keep(self, "metadata", _ReadOnly(check_metadata(self.metadata)))
        keep(self, "nonce", os.urandom(8).hex())

    def _checked_id(self) -> str:
        given = cast("str | None", self.id)
        if self.idempotency_key is None:
            return new_id() if given is None else check_name("id", given)
        made = id_for_key(self.queue, self.idempotency_key)
        if given is not None and given != made:  # dataclasses.replace() passes the derived one back
            raise InvalidJob("id", "must not be given together with idempotency_key, which makes the id")
        return made

    def with_payload(self, payload: bytes) -> NewJob:
        """
        Return the same job with another payload, for a layer that wraps or encrypts payloads.

        The nonce stays the same, so that enqueueing it again after a lost reply counts as a repeat.
        `dataclasses.replace` would make a new nonce.
        """
        changed = dataclasses.replace(self, payload=payload)
        object.__setattr__(changed, "nonce", self.nonce)
        return changed

    def run_at_from(self, now: datetime) -> datetime:
        """Return when the job is due, if it is stored at *now* by the store's clock."""
        if self.run_at is not None:
            return self.run_at
        return later(now, self.delay) if self.delay else now


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorDetail:
    """Error of a failed attempt. Texts are cleaned and shortened, so that every store can record them."""

    kind: str
    message: str = ""
    traceback: str = ""

    def __post_init__(self) -> None:
        keep = object.__setattr__
        for name, text in (("kind", self.kind), ("message", self.message), ("traceback", self.traceback)):
            if not isinstance(text, str):
                raise ConfigError(name, f"must be text, not {type(text).__name__}")
        keep(self, "kind", clean_text(self.kind, MAX_ERROR_KIND) or "Error")
        keep(self, "message", clean_text(self.message, MAX_ERROR_MESSAGE))
        # Keep the end of a traceback: it names the line that raised.
        keep(self, "traceback", clean_text(self.traceback, MAX_ERROR_TRACEBACK, keep="tail"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRecord:
    """A recorded `ErrorDetail`, with the number of the attempt and the time by the store's clock."""

    attempt: int
    at: datetime
    kind: str
    message: str = ""
    traceback: str = ""

    @classmethod
    def of(cls, detail: ErrorDetail, *, attempt: int, at: datetime) -> ErrorRecord:
        """Return the record of *detail*, an error of attempt number *attempt*, recorded at the time *at*."""
        return cls(attempt=attempt, at=at, kind=detail.kind, message=detail.message, traceback=detail.traceback)


LEASE_EXPIRED = ErrorDetail(kind="LeaseExpired", message="the lease ran out before an outcome was recorded")
"""Recorded by `recover_expired`: the worker died, lost its connection, or stopped renewing."""

UNREADABLE = "Unreadable"
"""Kind of the error of a job that is dead because its record cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Snapshot of a stored job. It does not change when the job does."""

    id: str
    queue: str
    type: str
    payload: bytes
    state: JobState
    priority: Priority
    run_at: datetime
    """When it was first due. Never changes."""

    created_at: datetime
    """When it was stored, by the store's clock."""

    max_retries: int
    timeout: float
    due_at: datetime | None = None
    """When it becomes ready. None unless scheduled or retry_wait."""

    attempts: int = 0
    """Number of leases, the current one included, without those that were given back."""

    crashes: int = 0
    """Number of leases that expired."""

    retry_policy: RetryPolicy | None = None
    idempotency_key: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    finished_at: datetime | None = None
    errors: tuple[ErrorRecord, ...] = ()
    """The newest ten errors, oldest first."""

    lease_owner: str | None = None
    """The worker_id of the lease. None unless leased."""

    lease_expires_at: datetime | None = None
    """When the lease expires, by the store's clock. None unless leased."""

    result: bytes | None = None
    """The encoded return value. None unless the job succeeded and its handler returned something."""

    queue_version: int = 1
    partition: int = 0
    unreadable: tuple[str, ...] = ()
    """
    Names of fields that the store could not read. They have neutral values here.

    A job with such fields never runs. It becomes dead, with an error of kind `UNREADABLE`, when a worker tries to lease
    it.
    """

    @property
    def last_error(self) -> ErrorRecord | None:
        """The newest error. None = no attempt has failed."""
        return self.errors[-1] if self.errors else None


AS_ASKED: Final = tuple(
    option.name
    for option in fields(NewJob)
    if option.name in {stored.name for stored in fields(Job)} - {"run_at", "metadata"}
)
"""Names of the fields that a stored job takes over unchanged from its `NewJob`."""
