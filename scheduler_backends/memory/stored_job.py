"""A stored job: a mutable record inside the store, of which a `Job` is made for each reader."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from scheduler.jobs import ErrorDetail, ErrorRecord, Job, NewJob
from scheduler.limits import MAX_ERRORS
from scheduler.states import TERMINAL, JobState
from scheduler.values import maker_of

if TYPE_CHECKING:  # which hold stored jobs
    from scheduler_backends.memory.deadlines import DeadlineHeap
    from scheduler_backends.memory.job_list import JobList
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


@dataclass(slots=True, eq=False, repr=False)
class Node:
    """What a `JobList` links: stored jobs and the list itself."""

    before: Node = field(init=False)
    after: Node = field(init=False)


@dataclass(slots=True, eq=False, repr=False)
class StoredJob(Node):
    """
    One stored job. Used under the store's lock only, and never handed out.

    Some fields mean something in some states only, and hold old values in the others.
    """

    id: str
    new: NewJob
    metadata: dict[str, str]
    run_at: datetime
    created_at: datetime
    partition: Partition
    state: JobState
    deadline: datetime | None
    """When the state ends by itself: due, expired, no longer kept. None while ready."""
    ready_at: datetime
    """Also while leased."""
    seconds: float | None = None
    """How long a lease lasts, or a retry waits."""
    attempts: int = 0
    crashes: int = 0
    errors: tuple[ErrorRecord, ...] = ()
    token: str = ""
    """While leased, like `worker_id`."""
    worker_id: str = ""
    finished_at: datetime | None = None
    """Once finished, like `result`."""
    result: bytes | None = None

    home: JobList = field(init=False)
    """The list that it is in."""
    serial: int = 0
    """The order in that list."""
    heap: DeadlineHeap | None = None
    """The heap that it is in, None while ready."""
    entry_id: int = 0
    """The valid entry in that heap, whose moment is `listed_at`."""
    listed_at: datetime = field(init=False)

    @classmethod
    def of(cls, new: NewJob, now: datetime, partition: Partition) -> StoredJob:
        """Make one that is scheduled, or ready when due, and in no list yet."""
        run_at = new.run_at_from(now)
        waits = run_at > now
        return cls(
            id=new.id,
            new=new,
            metadata=dict(new.metadata) if new.metadata else _NO_METADATA,  # the caller may change the mapping
            run_at=run_at,
            created_at=now,
            partition=partition,
            state=JobState.SCHEDULED if waits else JobState.READY,
            deadline=run_at if waits else None,
            ready_at=now,
        )

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
