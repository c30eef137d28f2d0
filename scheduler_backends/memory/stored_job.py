"""A stored job: one mutable row inside, a snapshot of it for the world outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from datetime import datetime
from typing import TYPE_CHECKING

from scheduler.jobs import ErrorDetail, ErrorRecord, Job, NewJob
from scheduler.leases import Failure
from scheduler.limits import MAX_ERRORS
from scheduler.states import TERMINAL, JobState

if TYPE_CHECKING:  # a row says where it is; those places know rows
    from scheduler_backends.memory.chains import JobList
    from scheduler_backends.memory.groups import LeaseBatch
    from scheduler_backends.memory.partitions import Partition

WAITING = frozenset({JobState.SCHEDULED, JobState.RETRY_WAIT})
_NO_METADATA: dict[str, str] = {}  # one for all, since most jobs have none; only copies of it are handed out

# Through its slots, a job is built in half the time that the __init__ of a frozen dataclass takes, which is most of
# what a lease costs here. Job checks nothing when it is built.
_PUT: tuple[Callable[[Job, object], None], ...] = tuple(getattr(Job, field.name).__set__ for field in fields(Job))


class StoredJob:
    """
    One stored job. Touched only under the store's lock, and never handed out.

    `state` alone says what the job is: each change of it is the moment in which a move happens. `chain`, the neighbours
    in it, `stamp` and `entry_id` belong to the places that the row is found in, which follow.
    """

    __slots__ = (
        "after",
        "attempts",
        "before",
        "chain",
        "crashes",
        "created_at",
        "due_at",
        "entry_id",
        "errors",
        "finished_at",
        "group",
        "id",
        "idempotency_key",
        "max_retries",
        "metadata",
        "nonce",
        "partition",
        "payload",
        "priority",
        "ready_at",
        "result",
        "retry_delay",
        "retry_policy",
        "run_at",
        "stamp",
        "state",
        "timeout",
        "type",
    )

    chain: JobList  # set by the chain
    before: StoredJob | None
    after: StoredJob | None

    def __init__(self, new: NewJob, *, partition: Partition, run_at: datetime, now: datetime) -> None:
        self.id = new.id
        self.type = new.type
        self.payload = new.payload
        self.priority = new.priority
        self.run_at = run_at
        self.created_at = now
        self.max_retries = new.max_retries
        self.timeout = new.timeout
        self.retry_policy = new.retry_policy
        self.idempotency_key = new.idempotency_key
        # A copy: the caller may still hold, and change, the mapping.
        self.metadata = dict(new.metadata) if new.metadata else _NO_METADATA
        self.nonce = new.nonce
        self.partition = partition
        self.state = JobState.SCHEDULED if run_at > now else JobState.READY
        self.due_at = run_at if run_at > now else None
        self.retry_delay: float | None = None  # seconds that a retry was asked to wait
        self.ready_at = now
        self.attempts = 0
        self.crashes = 0
        self.errors: tuple[ErrorRecord, ...] = ()
        self.finished_at: datetime | None = None
        self.result: bytes | None = None
        self.group: LeaseBatch | None = None
        self.stamp = 0
        self.entry_id = 0

    def record(self, failure: Failure, now: datetime) -> None:
        """What *failure* says of the present attempt."""
        if failure.error is not None:
            self.record_error(failure.error, now)
        if not failure.counted:
            self.give_back()

    def record_error(self, error: ErrorDetail, now: datetime) -> None:
        """Keep *error* as that of the present attempt; only the newest ten stay."""
        kept = ErrorRecord.of(error, attempt=self.attempts, at=now)
        self.errors = (*self.errors, kept)[-MAX_ERRORS:]

    def give_back(self) -> None:
        """The present lease was no attempt."""
        self.attempts = max(0, self.attempts - 1)

    def settle(self) -> None:
        """Let the other fields agree with the state, where a move was cut short among them."""
        if self.state is JobState.LEASED:
            self.attempts = max(1, self.attempts)
        else:
            self.group = None
        if self.state not in WAITING:
            self.due_at = self.retry_delay = None
        if self.state not in TERMINAL:
            self.finished_at = None
        if self.state is not JobState.SUCCEEDED:
            self.result = None

    def snapshot(self) -> Job:
        """The job as it is now; nothing in it is shared that anybody could change."""
        partition, group = self.partition, self.group
        values = (  # in the order of Job's fields
            self.id,
            partition.version.queue,
            self.type,
            self.payload,
            self.state,
            self.priority,
            self.run_at,
            self.created_at,
            self.max_retries,
            self.timeout,
            self.due_at,
            self.attempts,
            self.crashes,
            self.retry_policy,
            self.idempotency_key,
            self.metadata.copy(),
            self.finished_at,
            self.errors,
            None if group is None else group.worker_id,
            None if group is None else group.expires_at,
            self.result,
            partition.version.number,
            partition.index,
            (),
        )
        job = object.__new__(Job)
        for put, value in zip(_PUT, values, strict=True):
            put(job, value)
        return job
