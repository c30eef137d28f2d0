"""A stored job: a mutable record inside the store, of which a `Job` is made for each reader."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from scheduler.jobs import ErrorDetail, ErrorRecord, Job, NewJob
from scheduler.limits import MAX_ERRORS
from scheduler.states import TERMINAL, JobState
from scheduler.values import maker_of

if TYPE_CHECKING:  # partitions hold lists of stored jobs
    from scheduler_backends.memory.versions import Partition

WAITING = frozenset({JobState.SCHEDULED, JobState.RETRY_WAIT})
_NO_METADATA: dict[str, str] = {}  # one for all, since most jobs have none; readers get copies

_job = maker_of(
    Job,
    "id",
    "queue",
    "type",
    "payload",
    "state",
    "priority",
    "run_at",
    "created_at",
    "max_retries",
    "timeout",
    "due_at",
    "attempts",
    "crashes",
    "retry_policy",
    "idempotency_key",
    "metadata",
    "finished_at",
    "errors",
    "lease_owner",
    "lease_expires_at",
    "result",
    "queue_version",
    "partition",
)


class Node:
    """What a `JobList` links: stored jobs and the list itself."""

    __slots__ = ("after", "before")

    before: Node
    after: Node


class StoredJob(Node):
    """
    One stored job. Used under the store's lock only, and never handed out.

    Some fields mean something in some states only, and hold old values in the others: `token` and `worker_id` while
    leased; `finished_at` and `result` once finished; `ready_at` while ready or leased. `deadline` is when the state
    ends by itself (due, expired, no longer kept), None while ready; `seconds` is the lease or the retry delay that
    made it.
    """

    __slots__ = (
        "attempts",
        "crashes",
        "created_at",
        "deadline",
        "entry_id",
        "errors",
        "finished_at",
        "id",
        "listed_at",
        "metadata",
        "new",
        "partition",
        "ready_at",
        "result",
        "run_at",
        "seconds",
        "serial",
        "state",
        "token",
        "worker_id",
    )

    token: str
    worker_id: str
    finished_at: datetime
    listed_at: datetime  # the moment of the entry in a DeadlineHeap

    def __init__(self, new: NewJob, now: datetime, partition: Partition) -> None:
        run_at = new.run_at_from(now)
        waits = run_at > now
        self.new = new
        self.id = new.id
        # A copy: the caller may still hold, and change, the mapping.
        self.metadata = dict(new.metadata) if new.metadata else _NO_METADATA
        self.run_at = run_at
        self.created_at = self.ready_at = now
        self.partition = partition
        self.state = JobState.SCHEDULED if waits else JobState.READY
        self.deadline = run_at if waits else None
        self.seconds: float | None = None
        self.attempts = 0
        self.crashes = 0
        self.errors: tuple[ErrorRecord, ...] = ()
        self.result: bytes | None = None
        self.serial = 0  # its place in a JobList
        self.entry_id = 0  # of the entry in a DeadlineHeap, 0 without one

    def record(self, error: ErrorDetail, now: datetime) -> None:
        """Keep *error* as that of the present attempt. Only the newest ten errors are kept."""
        self.errors = (*self.errors, ErrorRecord.of(error, attempt=self.attempts, at=now))[-MAX_ERRORS:]

    def job(self) -> Job:
        """Return the job as it is now. Nothing in it is shared that a reader could change."""
        new, partition, state = self.new, self.partition, self.state
        is_leased = state is JobState.LEASED
        return _job(
            self.id,
            new.queue,
            new.type,
            new.payload,
            state,
            new.priority,
            self.run_at,
            self.created_at,
            new.max_retries,
            new.timeout,
            self.deadline if state in WAITING else None,
            self.attempts,
            self.crashes,
            new.retry_policy,
            new.idempotency_key,
            self.metadata.copy(),
            self.finished_at if state in TERMINAL else None,
            self.errors,
            self.worker_id if is_leased else None,
            self.deadline if is_leased else None,
            self.result if state is JobState.SUCCEEDED else None,
            partition.version.number,
            partition.index,
        )
