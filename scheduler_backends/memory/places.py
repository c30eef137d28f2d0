"""Where the rows of one queue are found, by what is to happen with them, and how they get from place to place."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import datetime

from scheduler.jobs import Priority
from scheduler.states import TERMINAL, JobState
from scheduler_backends.memory.groups import LeaseTable
from scheduler_backends.memory.partitions import Partition, Version
from scheduler_backends.memory.stored_job import WAITING, StoredJob
from scheduler_backends.memory.timetables import DeadlineHeap

READY, LEASED = JobState.READY, JobState.LEASED


class QueueIndexes:
    """
    `jobs` has every row by id. All else follows from the rows, and `rebuild` makes it anew from them.

    *stir* is called with the queue's name when its waiters have reason to look.
    """

    def __init__(self, name: str, version: int, partitions: int, stir: Callable[[str], None]) -> None:
        self.name = name
        self.paused = False
        self.jobs: dict[str, StoredJob] = {}
        self.versions = {version: Version(name, version, partitions)}
        self._stir = stir
        self._lay_out()

    def _lay_out(self) -> None:
        self.active = self.versions[max(self.versions)]  # the one that was promoted last is the highest
        self.ready = 0  # rows in that state, over all partitions
        self.leases = LeaseTable()
        self._turns: deque[Partition] = deque()  # every partition that has ready rows, once
        self._due: tuple[DeadlineHeap[StoredJob], ...] = tuple(DeadlineHeap() for _ in Priority)
        self._finished: dict[JobState, DeadlineHeap[StoredJob]] = {state: DeadlineHeap() for state in TERMINAL}

    def rebuild(self) -> None:
        """
        Put every row where its state says.

        For the rare move that was cut short, by a Ctrl-C or an exception raised in its thread from outside: its row may
        be in no place, or in two.
        """
        for version in self.versions.values():
            version.clear()
        self._lay_out()
        for row in sorted(self.jobs.values(), key=lambda row: row.stamp):  # which keeps the order within each chain
            row.settle()
            if row.group is not None:
                self.leases.restore(row.group)
            self._put(row)

    def move(self, row: StoredJob, state: JobState, *, first: bool = False) -> None:
        """Bring *row*, whose fields are those of *state* already, into it. first: not at the back of ready."""
        row.state = state
        self._take(row)
        self._put(row, first=first)

    def add(self, row: StoredJob) -> None:
        """Bring a new *row* into its state."""
        self.jobs[row.id] = row
        self._put(row)

    def delete(self, row: StoredJob) -> None:
        """Forget *row*."""
        del self.jobs[row.id]
        self._take(row)
        row.payload = b""  # a timetable may keep the row for a while

    def activate(self, version: Version) -> None:
        """Let *version*, above all others, take the new jobs."""
        self.versions[version.number] = version
        self.active = version

    def next_due(self) -> datetime | None:
        """When the next row is due, None where none waits."""
        return min((first[0] for due in self._due if (first := due.first()) is not None), default=None)

    def postpone(self, row: StoredJob, due_at: datetime) -> None:
        """Let a waiting *row* be due at another time."""
        self._due[row.priority].withdraw(row)
        row.due_at = due_at
        self._list_due(row, due_at)

    def _list_due(self, row: StoredJob, due_at: datetime) -> None:
        known = self.next_due()
        self._due[row.priority].add(due_at, row)
        if known is None or due_at < known:
            self._stir(self.name)

    def _take(self, row: StoredJob) -> None:
        place = row.chain.state
        row.chain.remove(row)
        if place is READY:
            self.ready -= 1
        elif place is LEASED:
            self.leases.let_go(row)
        elif place in WAITING:
            self._due[row.priority].withdraw(row)
            row.due_at = row.retry_delay = None
        else:
            self._finished[place].withdraw(row)
            row.finished_at = None

    def _put(self, row: StoredJob, *, first: bool = False) -> None:
        partition, state = row.partition, row.state
        if state is READY:
            chain = partition.ready[row.priority]
            if first:
                chain.prepend(row)
            else:
                chain.append(row)
            self._count_ready(partition)
            return
        partition.version.chains[state].append(row)
        if row.group is not None:
            row.group.rows[row.id] = row
        elif row.due_at is not None:
            self._list_due(row, row.due_at)
        elif row.finished_at is not None:
            self._finished[state].add(row.finished_at, row)

    def _count_ready(self, partition: Partition) -> None:
        if not partition.in_turn:
            partition.in_turn = True
            self._turns.append(partition)
        self.ready += 1
        if self.ready == 1 and not self.paused:
            self._stir(self.name)
