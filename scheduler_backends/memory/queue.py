"""The jobs of one queue. Only `MemoryQueue.move` changes their states."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import datetime
from operator import itemgetter

from scheduler.clock import later
from scheduler.jobs import NewJob, Priority
from scheduler.states import TERMINAL, JobState
from scheduler.topology import QueueTopology, partition_of
from scheduler_backends.memory.stored_job import DeadlineHeap, JobList, Place, StoredJob

_LEASED, _READY = JobState.LEASED, JobState.READY
_ascending, _descending = itertools.count(1), itertools.count(-1, -1)


class MemoryQueue:
    """
    The jobs of one queue. Used under the store's lock only.

    `jobs` holds every stored job by id. All other structures (lists, heaps, leases, counts) follow from the fields of
    these jobs, and `rebuild` can build them again.

    Args:
        topology: Name and versions of the queue.
        kept: Seconds that finished jobs are kept, by state.
        to_notify: Names of the queues whose waiters must be notified. The queue adds its own name.
    """

    def __init__(self, topology: QueueTopology, kept: Mapping[JobState, float], to_notify: set[str]) -> None:
        self.change_topology(topology)
        self.paused = False
        self.turns: dict[str, int] = {}  # when it was last served, by contract method
        self.jobs: dict[str, StoredJob] = {}
        self._kept = kept
        self._to_notify = to_notify
        self._reset()

    def _reset(self) -> None:
        self.ready = 0  # jobs in that state, over all places
        self._places: dict[Place, tuple[JobList, ...]] = {}  # ready jobs: a list for each priority
        self._turns: deque[Place] = deque()  # the same places; the first is the next one to be served
        self._lists: dict[tuple[int, JobState], JobList] = {}  # the other jobs, by version and state
        self.held: dict[str, dict[str, StoredJob]] = {}  # leased jobs by token and id
        self.due = tuple(DeadlineHeap(self.jobs) for _ in Priority)
        self.leases = DeadlineHeap(self.jobs)
        self.finished = DeadlineHeap(self.jobs)

    def rebuild(self) -> None:
        """
        Build the lists, heaps and counts again.

        This is needed after a call that was interrupted by a Ctrl-C, or by an exception that another thread raised in
        its thread: the job that it was moving may be in no list, or in two.
        """
        self._reset()
        for stored in sorted(self.jobs.values(), key=lambda stored: stored.serial):  # keeps the order of each list
            self._put(stored)
        self.wake()

    def change_topology(self, topology: QueueTopology) -> None:
        """Replace the versions of the queue."""
        self.topology, self.active = topology, topology.active

    def wake(self) -> None:
        """Mark the waiters of this queue to be notified when the call ends."""
        self._to_notify.add(self.topology.queue)

    def add(self, new: NewJob, now: datetime) -> StoredJob:
        """Store *new*: → scheduled, or ready if due."""
        stored = StoredJob.of(new, now, self._place_for(new.id), next(_ascending))
        self._put(stored)
        self.jobs[stored.id] = stored  # last: a job that could not be placed must not be found by `rebuild`
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
        Change the state of *stored*. No other method does.

        The move itself is one line of plain assignments, between which Python raises no exception of a signal handler
        or another thread. Fields set before it have no meaning in the old state; structures changed after it can be
        rebuilt.

        Args:
            stored: The job.
            state: The new state. A finished job that is not kept is deleted instead.
            now: The current time.
            seconds: How long the job is leased, or waits for its retry.
            attempts: The new number of attempts. None = unchanged.
            first: Put a ready job before all others of its priority. It was ready before, so it keeps `ready_at`.
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
        """Delete *stored*."""
        del self.jobs[stored.id]
        self._take(stored)

    def move_to_active(self, stored: StoredJob) -> None:
        """Move a finished job to the active version, without changing its state."""
        stored.serial = next(_ascending)
        self._take(stored)
        stored.place = self._place_for(stored.id)
        self._put(stored)

    def next_ready(self) -> StoredJob | None:
        """Return the job to lease next, from each partition in turn; None if no job is ready."""
        while self._turns:
            for jobs in self._places[self._turns[0]]:
                first = jobs.after
                if isinstance(first, StoredJob):
                    self._turns.rotate(-1)
                    return first
            del self._places[self._turns.popleft()]
        return None

    def lists(self, state: JobState, version: int | None = None) -> list[tuple[tuple[int, int, int], JobList]]:
        """
        Return the lists of *state*, of one version or of all, each with its key.

        Keys are version, partition and priority, in ascending order. Only ready jobs have a list for each partition and
        priority; in other keys both are 0.
        """
        if state is _READY:
            places = self._places.items()
            found = [((*place, urgency), jobs) for place, lists in places for urgency, jobs in enumerate(lists)]
        else:
            found = [((number, 0, 0), jobs) for (number, its), jobs in self._lists.items() if its is state]
        return sorted([each for each in found if version in (None, each[0][0])], key=itemgetter(0))

    def jobs_in(self, state: JobState, version: int | None = None) -> Iterator[StoredJob]:
        """Iterate over the jobs in *state*, of one version or of all."""
        return (stored for _, jobs in self.lists(state, version) for stored in jobs.after_serial())

    def counts(self, version: int) -> dict[JobState, int]:
        """Return the number of jobs of a version in each state, zeros included."""
        return {state: sum(jobs.size for _, jobs in self.lists(state, version)) for state in JobState}

    def limit_deadlines(self, now: datetime) -> None:
        """
        Shorten leases and retry delays to the requested length from *now*, after the clock went back.

        Otherwise the jobs of a dead worker would wait until the old time, perhaps years ahead, is reached again.
        """
        for state in (_LEASED, JobState.RETRY_WAIT):
            for stored in self.jobs_in(state):
                latest = later(now, stored.seconds or 0.0)
                if stored.heap is not None and stored.deadline is not None and stored.deadline > latest:
                    stored.heap.change(stored, latest)
        self.wake()

    def _place_for(self, id: str) -> Place:
        partitions = self.active.partitions
        return self.active.version, partition_of(id, partitions) if partitions > 1 else 0

    def _take(self, stored: StoredJob) -> None:
        stored.home.remove(stored)
        if stored.heap is None:
            self.ready -= 1
            return
        stored.heap.remove()
        if stored.state is _LEASED:
            held = self.held[stored.token]
            del held[stored.id]
            if not held:
                del self.held[stored.token]

    def _put(self, stored: StoredJob, *, first: bool = False) -> None:
        state, deadline = stored.state, stored.deadline
        if deadline is None:
            lists = self._places.get(stored.place)
            if lists is None:
                lists = self._places[stored.place] = tuple(JobList() for _ in Priority)
                self._turns.append(stored.place)
            lists[stored.new.priority].add(stored, first=first)
            stored.heap = None
            self.ready += 1
            if self.ready == 1 and not self.paused:
                self.wake()
            return
        key = (stored.place[0], state)
        jobs = self._lists.get(key)
        if jobs is None:
            jobs = self._lists[key] = JobList()
        jobs.add(stored)
        if state is _LEASED:
            heap = self.leases
            self.held.setdefault(stored.token, {})[stored.id] = stored
        elif state in TERMINAL:
            heap = self.finished
        else:
            heap = self.due[stored.new.priority]
            if all(first is None or deadline < first[0] for first in map(DeadlineHeap.first, self.due)):
                self.wake()
        heap.add(stored, deadline)
