"""Stored jobs, and the two structures that hold them: a list in order of arrival, and a heap of deadlines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from heapq import heapify, heappop, heappush, heapreplace
from operator import attrgetter

from scheduler.jobs import AS_ASKED, ErrorDetail, ErrorRecord, Job, NewJob
from scheduler.limits import MAX_ERRORS
from scheduler.states import TERMINAL, JobState
from scheduler.values import maker_of

WAITING = frozenset({JobState.SCHEDULED, JobState.RETRY_WAIT})
Place = tuple[int, int]  # the numbers of a version and of a partition
_NO_METADATA: dict[str, str] = {}  # shared, since most jobs have none; readers get copies
_SLACK = 64  # invalid entries of a heap that are not worth a rebuild

_STATE = ("state", "run_at", "created_at", "due_at", "attempts", "crashes", "metadata", "finished_at", "errors")
_LEASE = ("lease_owner", "lease_expires_at", "result", "queue_version", "partition")
_job = maker_of(Job, *AS_ASKED, *_STATE, *_LEASE)
_as_asked = attrgetter(*AS_ASKED)


@dataclass(slots=True, eq=False, repr=False)
class Node:
    """Element of a `JobList`: a stored job, or the list itself."""

    before: Node = field(init=False)
    after: Node = field(init=False)


@dataclass(slots=True, eq=False, repr=False)
class StoredJob(Node):
    """
    One stored job. Used under the store's lock only; readers get a `Job`.

    Some fields have a meaning only in some states, and hold old values in the others.
    """

    id: str
    new: NewJob
    as_asked: tuple[object, ...]
    """Values of the fields `AS_ASKED` of `new`."""
    metadata: dict[str, str]
    run_at: datetime
    created_at: datetime
    place: Place
    state: JobState
    deadline: datetime | None
    """When the job is due, its lease expires, or its retention ends. None while ready."""
    ready_at: datetime
    """When the job became ready. Kept while it is leased."""
    serial: int
    """Position in its list. Every move assigns a new one, so it also shows which entry of a heap is valid."""
    seconds: float | None = None
    """Duration of the lease, or delay of the retry."""
    attempts: int = 0
    crashes: int = 0
    errors: tuple[ErrorRecord, ...] = ()
    token: str = ""
    """Valid while leased, like `worker_id`."""
    worker_id: str = ""
    finished_at: datetime | None = None
    """Valid once finished, like `result`."""
    result: bytes | None = None
    home: JobList = field(init=False)
    """The list that holds the job."""
    heap: DeadlineHeap | None = None
    """The heap that holds the job. None while ready."""

    @classmethod
    def of(cls, new: NewJob, now: datetime, place: Place, serial: int) -> StoredJob:
        """Make a stored job that is scheduled, or ready if due, and in no list yet."""
        run_at = new.run_at_from(now)
        waits = run_at > now
        return cls(
            new.id,
            new,
            _as_asked(new),
            dict(new.metadata) if new.metadata else _NO_METADATA,  # the caller may change the mapping
            run_at,
            now,
            place,
            JobState.SCHEDULED if waits else JobState.READY,
            run_at if waits else None,
            now,
            serial,
        )

    def record(self, error: ErrorDetail, now: datetime) -> None:
        """Record *error* for the current attempt. Only the newest ten errors are kept."""
        self.errors = (*self.errors, ErrorRecord.of(error, attempt=self.attempts, at=now))[-MAX_ERRORS:]

    def job(self) -> Job:
        """Return the job as it is now. A reader cannot change this object through the result."""
        state, deadline = self.state, self.deadline
        is_leased = state is JobState.LEASED
        return _job(
            *self.as_asked,
            state,
            self.run_at,
            self.created_at,
            deadline if state in WAITING else None,
            self.attempts,
            self.crashes,
            self.metadata.copy(),
            self.finished_at if state in TERMINAL else None,
            self.errors,
            self.worker_id if is_leased else None,
            deadline if is_leased else None,
            self.result if state is JobState.SUCCEEDED else None,
            *self.place,
        )


class JobList(Node):
    """
    Doubly linked ring through the jobs themselves. The list is its own first and last node.

    Serials ascend from first to last. A deque would keep cancelled jobs until they reach its end. An OrderedDict cannot
    be iterated from the middle, where the next page of a list begins.
    """

    __slots__ = ("size",)

    def __init__(self) -> None:
        self.before = self.after = self
        self.size = 0

    @property
    def first(self) -> StoredJob | None:
        """The first job, None if the list is empty."""
        return self.after if isinstance(self.after, StoredJob) else None

    def add(self, stored: StoredJob, *, first: bool = False) -> None:
        """Add *stored*, which is in no list, at the end or at the beginning."""
        before = self if first else self.before
        after = before.after
        stored.before, stored.after = before, after
        before.after = after.before = stored
        stored.home = self
        self.size += 1

    def remove(self, stored: StoredJob) -> None:
        """Remove *stored*, which is in this list."""
        stored.before.after, stored.after.before = stored.after, stored.before
        self.size -= 1

    def after_serial(self, serial: float = float("-inf"), near: StoredJob | None = None) -> Iterator[StoredJob]:
        """
        Iterate over the jobs with a higher serial.

        *near* is the job of this list with that serial, if there still is one. Without it, the iteration first has to
        skip all jobs with a lower one.
        """
        node = self.after if near is None else near.after
        while isinstance(node, StoredJob):
            if node.serial > serial:
                yield node
            node = node.after


class DeadlineHeap:
    """
    Heap of deadlines with lazy deletion.

    The entry of a removed job stays until it reaches the top, or until such entries outnumber the valid ones by a small
    constant. The heap is then rebuilt, at a constant cost per removal. Entries hold ids, so that a removed job does not
    stay in memory.
    """

    __slots__ = ("_entries", "_jobs", "size")

    def __init__(self, jobs: Mapping[str, StoredJob]) -> None:
        self._entries: list[tuple[datetime, int, str]] = []
        self._jobs = jobs
        self.size = 0  # jobs

    def add(self, stored: StoredJob, deadline: datetime) -> None:
        """Add *stored*."""
        self.size += 1
        stored.heap = self
        heappush(self._entries, (deadline, stored.serial, stored.id))

    def remove(self) -> None:
        """Count one job less. Its new serial, or its deletion, has made its entry invalid."""
        self.size -= 1
        if len(self._entries) > 2 * self.size + _SLACK:
            self._rebuild()

    def change(self, stored: StoredJob, deadline: datetime) -> None:
        """
        Change the deadline of *stored*.

        A later deadline gets its entry only when the current entry reaches the top, so that leases that are renewed
        often leave no entries behind.
        """
        is_earlier = stored.deadline is None or deadline < stored.deadline
        stored.deadline = deadline
        if is_earlier:
            heappush(self._entries, (deadline, stored.serial, stored.id))
            if len(self._entries) > 2 * self.size + _SLACK:
                self._rebuild()

    def first(self) -> tuple[datetime, StoredJob] | None:
        """Return the earliest deadline and its job, None if the heap is empty."""
        entries = self._entries
        while entries:
            moment, serial, id = entries[0]
            stored = self._jobs.get(id)
            if stored is None or stored.serial != serial or stored.deadline is None:
                heappop(entries)
            elif stored.deadline > moment:
                heapreplace(entries, (stored.deadline, serial, id))
            else:
                return moment, stored
        return None

    def _rebuild(self) -> None:
        found = ((moment, serial, id, self._jobs.get(id)) for moment, serial, id in self._entries)
        self._entries = list(
            {
                (stored.deadline or moment, serial, id)
                for moment, serial, id, stored in found
                if stored is not None and stored.serial == serial
            }
        )
        heapify(self._entries)
