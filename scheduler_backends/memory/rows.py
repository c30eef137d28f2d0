"""A stored job: one mutable row inside, a snapshot of it for the world outside."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from scheduler.jobs import ErrorDetail, ErrorRecord, Job, NewJob
from scheduler.leases import Failure
from scheduler.limits import MAX_ERRORS

if TYPE_CHECKING:  # a row knows where it is; these places know rows
    from scheduler_backends.memory.chains import Chain
    from scheduler_backends.memory.groups import Group
    from scheduler_backends.memory.partitions import Partition


class Row:
    """
    One stored job. Touched only under the backend's lock, and never handed out.

    Its state is that of the chain it is in, and it is in exactly one. `ticket` is its valid entry in a timetable.
    """

    __slots__ = (
        "after",
        "attempts",
        "before",
        "chain",
        "crashes",
        "created_at",
        "due_at",
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
        "retry_policy",
        "run_at",
        "stamp",
        "ticket",
        "timeout",
        "type",
    )

    chain: Chain
    partition: Partition
    before: Row | None
    after: Row | None
    stamp: int
    ready_at: datetime

    def __init__(self, new: NewJob, *, run_at: datetime, now: datetime) -> None:
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
        self.metadata = dict(new.metadata)  # the caller may still hold, and change, the mapping
        self.nonce = new.nonce
        self.due_at: datetime | None = None
        self.attempts = 0
        self.crashes = 0
        self.errors: tuple[ErrorRecord, ...] = ()
        self.finished_at: datetime | None = None
        self.result: bytes | None = None
        self.group: Group | None = None
        self.ticket = 0

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

    def snapshot(self) -> Job:
        """The job as it is now; nothing in it is shared that anybody could change."""
        partition, group = self.partition, self.group
        return Job(
            id=self.id,
            queue=partition.version.queue,
            type=self.type,
            payload=self.payload,
            state=self.chain.state,
            priority=self.priority,
            run_at=self.run_at,
            created_at=self.created_at,
            max_retries=self.max_retries,
            timeout=self.timeout,
            due_at=self.due_at,
            attempts=self.attempts,
            crashes=self.crashes,
            retry_policy=self.retry_policy,
            idempotency_key=self.idempotency_key,
            metadata=self.metadata.copy(),
            finished_at=self.finished_at,
            errors=self.errors,
            lease_owner=None if group is None else group.worker_id,
            lease_expires_at=None if group is None else group.expires_at,
            result=self.result,
            queue_version=partition.version.number,
            partition=partition.index,
        )
