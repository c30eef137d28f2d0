"""The jobs of one queue, and the only method that changes their states."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Mapping
from datetime import datetime

from scheduler.clock import later
from scheduler.jobs import NewJob, Priority
from scheduler.states import TERMINAL, JobState
from scheduler_backends.memory.deadlines import DeadlineHeap
from scheduler_backends.memory.stored_job import StoredJob
from scheduler_backends.memory.versions import Partition, Version

_LEASED, _READY = JobState.LEASED, JobState.READY
_ascending, _descending = itertools.count(1), itertools.count(-1, -1)


class MemoryQueue:
    """
    One queue. Used under the store's lock only.

    `jobs` holds every stored job by id. Everything else (lists, heaps, leases, counts) follows from their fields, and
    `rebuild` can build it again.

    Args:
        name: of the queue.
        versions: the number of partitions of each version, by its number.
        kept: seconds that finished jobs are kept, by state.
        to_notify: names of the queues whose waiters have to be notified; the queue adds its own.
    """

    def __init__(
        self, name: str, versions: Mapping[int, int], kept: Mapping[JobState, float], to_notify: set[str]
    ) -> None:
        self.name = name
        self.paused = False
        self.epoch = 1  # of the topology
        self.turns: dict[str, int] = {}  # when it was last served, by contract method
        self.jobs: dict[str, StoredJob] = {}
        self._kept = kept
        self._to_notify = to_notify
        self._reset(versions)

    def _reset(self, versions: Mapping[int, int]) -> None:
        self.versions = {number: Version(number, partitions) for number, partitions in versions.items()}
        self.active = self.versions[max(self.versions)]  # the one that was promoted last has the highest number
        self.ready = 0  # jobs in that state, over all partitions
        self._turns: deque[Partition] = deque()  # every partition that has ready jobs, once
        self.held: dict[str, dict[str, StoredJob]] = {}  # leased jobs by token and id
        self.due = tuple(DeadlineHeap(self.jobs) for _ in Priority)
        self.leases = DeadlineHeap(self.jobs)
        self.finished = DeadlineHeap(self.jobs)

    def rebuild(self) -> None:
        """
        Build the lists, heaps and counts again.

        Needed after a call that was interrupted, by a Ctrl-C or an exception raised in its thread from outside: the
        job that it moved may be in no list, or in two.
        """
        self._reset({version.number: version.partitions for version in self.versions.values()})
        for stored in sorted(self.jobs.values(), key=lambda stored: stored.serial):  # keeps the order of each list
            stored.partition = self.versions[stored.partition.version.number].partition_for(stored.id)
            self._put(stored)
        self.wake()

    def wake(self) -> None:
        """Have the waiters of this queue notified when the call ends."""
        self._to_notify.add(self.name)

    def add(self, new: NewJob, now: datetime) -> StoredJob:
        """→ scheduled, or ready when due."""
        stored = StoredJob.of(new, now, self.active.partition_for(new.id))
        stored.serial = next(_ascending)
        self._put(stored)
        self.jobs[stored.id] = stored  # last: what cannot be put in its place must not be there for `rebuild`
        return stored

    def move(
        self,
        stored: StoredJob,
        state: JobState,
        now: datetime,
        *,
        seconds: float | None = None,
        attempts: int | None = None,
        first: bool = False,
    ) -> None:
        """
        Change the state of *stored*. Nothing else does.

        The move is one line of plain assignments, between which Python raises no exception from a signal handler or
        another thread. What is set before it has no meaning in the old state; what follows it can be rebuilt.

        Args:
            stored: the job.
            state: the new state; a finished job that is not kept is deleted instead.
            now: when that happens.
            seconds: how long it is leased, or waits for its retry.
            attempts: the new number of attempts; None = as it was.
            first: put a ready job before all others of its priority: it was ready before, so it keeps `ready_at`.
        """
        if state in TERMINAL:
            seconds = self._kept[state]
            if not seconds:
                self.delete(stored)
                return
            stored.finished_at = now
        elif state is _READY and not first:
            stored.ready_at = now
        if attempts is None:
            attempts = stored.attempts
        deadline = None if seconds is None else later(now, seconds)
        stored.serial = next(_descending if first else _ascending)
        self._take(stored)
        stored.state, stored.deadline, stored.seconds, stored.attempts = state, deadline, seconds, attempts
        self._put(stored, first=first)

    def delete(self, stored: StoredJob) -> None:
        """Forget *stored*."""
        del self.jobs[stored.id]
        self._take(stored)

    def move_to_active(self, stored: StoredJob) -> None:
        """Move a finished job to the active version, in the state that it has."""
        self._take(stored)
        stored.partition, stored.serial = self.active.partition_for(stored.id), next(_ascending)
        self._put(stored)

    def next_ready(self) -> StoredJob | None:
        """The job to be leased next; the partitions take turns."""
        turns = self._turns
        while turns:
            partition = turns[0]
            for jobs in partition.ready:
                if jobs.size:
                    turns.rotate(-1)
                    return jobs.first
            turns.popleft()
            partition.in_turn = False
        return None

    def next_due(self) -> datetime | None:
        """When the next job is due, None where none waits."""
        return min((deadline for due in self.due if (deadline := due.next()) is not None), default=None)

    def limit_deadlines(self, now: datetime) -> None:
        """
        Shorten leases and retry delays to what was asked for, after the clock went back.

        Otherwise the jobs of a dead worker would wait until the old time, perhaps years ahead, has come again.
        """
        for version in self.versions.values():
            for state in (_LEASED, JobState.RETRY_WAIT):
                for stored in version.jobs(state):
                    latest = later(now, stored.seconds or 0.0)
                    if stored.heap is not None and stored.deadline is not None and stored.deadline > latest:
                        stored.heap.change(stored, latest)
        self.wake()

    def _take(self, stored: StoredJob) -> None:
        stored.home.remove(stored)
        if stored.heap is None:
            self.ready -= 1
            return
        stored.heap.remove(stored)
        if stored.state is _LEASED:
            held = self.held[stored.token]
            del held[stored.id]
            if not held:
                del self.held[stored.token]

    def _put(self, stored: StoredJob, *, first: bool = False) -> None:
        state, partition, deadline = stored.state, stored.partition, stored.deadline
        if deadline is None:
            partition.ready[stored.new.priority].add(stored, first=first)
            self._count_ready(partition)
            return
        partition.version.list_of(state).add(stored)
        if state is _LEASED:
            self.leases.add(stored, deadline)
            self.held.setdefault(stored.token, {})[stored.id] = stored
        elif state in TERMINAL:
            self.finished.add(stored, deadline)
        else:
            known = self.next_due()
            self.due[stored.new.priority].add(stored, deadline)
            if known is None or deadline < known:
                self.wake()

    def _count_ready(self, partition: Partition) -> None:
        if not partition.in_turn:
            partition.in_turn = True
            self._turns.append(partition)
        self.ready += 1
        if self.ready == 1 and not self.paused:
            self.wake()
