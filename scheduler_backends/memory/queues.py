"""One queue with everything in it: each move of a job is a method here, and keeps all its places in step."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta

from scheduler.jobs import LEASE_EXPIRED, NewJob, Priority
from scheduler.queues import QueueStats, Retention
from scheduler.states import TERMINAL, JobState
from scheduler_backends.memory.groups import Group, LeaseBook
from scheduler_backends.memory.partitions import Partition, Version
from scheduler_backends.memory.rows import Row
from scheduler_backends.memory.timetables import Timetable

READY, LEASED, SCHEDULED, RETRY_WAIT = JobState.READY, JobState.LEASED, JobState.SCHEDULED, JobState.RETRY_WAIT


class MemoryQueue:
    """
    The jobs of one queue by id, and once more by what is to happen with them. Touched only under the backend's lock.

    *stir* is called with the queue's name when its waiters have reason to look.
    """

    def __init__(
        self, name: str, version: int, partitions: int, retention: Retention, stir: Callable[[str], None]
    ) -> None:
        self.name = name
        self.paused = False
        self.jobs: dict[str, Row] = {}
        self.versions = {version: Version(name, version, partitions)}
        self.active = self.versions[version]
        self.highest = version  # ever used
        self.epoch = 1
        self.leases = LeaseBook()
        self.ready = 0  # over all partitions
        self._turns: deque[Partition] = deque()  # every partition that has ready jobs, once
        self._due: tuple[Timetable[Row], ...] = tuple(Timetable() for _ in Priority)
        self._finished: dict[JobState, Timetable[Row]] = {state: Timetable() for state in TERMINAL}
        self._kept = {state: retention.seconds(state) for state in TERMINAL}
        self._stir = stir

    # How a row comes into a state, and leaves it.

    def store(self, new: NewJob, now: datetime) -> Row:
        """→ scheduled or ready."""
        run_at = new.run_at_from(now)
        row = Row(new, run_at=run_at, now=now)
        row.partition = self.active.partition_for(new.id)
        self.jobs[row.id] = row
        if run_at > now:
            self._wait(row, SCHEDULED, run_at)
        else:
            self.make_ready(row, now)
        return row

    def make_ready(self, row: Row, now: datetime) -> None:
        """*row*, which is in no state, → ready, at the back."""
        row.ready_at = now
        row.partition.ready[row.priority].append(row)
        self._count_ready(row.partition)

    def _count_ready(self, partition: Partition) -> None:
        if not partition.in_turn:
            partition.in_turn = True
            self._turns.append(partition)
        self.ready += 1
        if self.ready == 1 and not self.paused:
            self._stir(self.name)

    def _wait(self, row: Row, state: JobState, due_at: datetime) -> None:
        known = self.next_due()
        row.due_at = due_at
        row.partition.version.chains[state].append(row)
        self._due[row.priority].add(due_at, row)
        if known is None or due_at < known:
            self._stir(self.name)

    def leave(self, row: Row) -> None:
        """Take *row* out of its state; the caller puts it into another or forgets it."""
        state = row.chain.state
        row.chain.remove(row)
        if state is READY:
            self.ready -= 1
        elif state is LEASED:
            self.leases.let_go(row)
        elif state is SCHEDULED or state is RETRY_WAIT:
            row.due_at = None
            self._due[row.priority].withdraw(row)
        else:
            row.finished_at = None
            self._finished[state].withdraw(row)

    def delete(self, row: Row) -> None:
        """Forget *row*."""
        self.leave(row)
        del self.jobs[row.id]

    # The moves.

    def promote(self, now: datetime, limit: int) -> int:
        """Due → ready, urgent ones first."""
        moved = 0
        for due in self._due:
            while moved < limit and (row := due.next_until(now)) is not None:
                self.leave(row)
                self.make_ready(row, now)
                moved += 1
        return moved

    def next_due(self) -> datetime | None:
        """When the next job is due, None where none waits."""
        return min((first[0] for due in self._due if (first := due.first()) is not None), default=None)

    def lease(self, group: Group, limit: int) -> list[Row]:
        """Ready → leased by *group*; the partitions take turns."""
        rows: list[Row] = []
        turns = self._turns
        share = max(1, limit // max(1, len(turns)))
        while turns and len(rows) < limit:
            partition = turns.popleft()
            wanted = min(limit, len(rows) + share)
            while (row := partition.next_ready()) is not None and len(rows) < wanted:
                self.leave(row)
                row.attempts += 1
                row.partition.version.chains[LEASED].append(row)
                self.leases.take(group, row)
                rows.append(row)
            partition.in_turn = row is not None
            if partition.in_turn:
                turns.append(partition)
        return rows

    def finish(self, row: Row, state: JobState, now: datetime) -> None:
        """→ *state*, which is terminal, or away at once if such jobs are not kept."""
        self.leave(row)
        if self._kept[state] == 0:
            del self.jobs[row.id]
            return
        row.finished_at = now
        row.partition.version.chains[state].append(row)
        self._finished[state].add(now, row)

    def retry(self, row: Row, due_at: datetime, now: datetime) -> None:
        """Leased → retry_wait, or ready where it is due already."""
        self.leave(row)
        if due_at > now:
            self._wait(row, RETRY_WAIT, due_at)
        else:
            self.make_ready(row, now)

    def release(self, row: Row) -> None:
        """Leased → ready, first in line, as if it had never been leased."""
        self.leave(row)
        row.give_back()
        row.partition.ready[row.priority].prepend(row)
        self._count_ready(row.partition)

    def recover(self, row: Row, now: datetime) -> bool:
        """Leased → ready (True) or dead (False)."""
        row.crashes += 1
        row.record_error(LEASE_EXPIRED, now)
        if row.attempts > row.max_retries:
            self.finish(row, JobState.DEAD, now)
            return False
        self.leave(row)
        self.make_ready(row, now)
        return True

    def requeue(self, row: Row, now: datetime) -> None:
        """Dead → ready, attempts and crashes 0."""
        self.leave(row)
        row.attempts = row.crashes = 0
        self.make_ready(row, now)

    def trim(self, now: datetime, limit: int) -> int:
        """Forget finished jobs that are kept no longer."""
        gone = 0
        for state, finished in self._finished.items():
            kept = timedelta(seconds=self._kept[state])
            while gone < limit and (first := finished.first()) is not None and now - first[0] >= kept:
                self.delete(first[1])
                gone += 1
        return gone

    def purge(self, state: JobState, limit: int) -> int:
        """Forget jobs in *state*."""
        gone = 0
        for version in self.versions.values():
            for _, _, chain in version.places_of(state):
                while gone < limit and chain.first is not None:
                    self.delete(chain.first)
                    gone += 1
        return gone

    def move_to_active(self, row: Row) -> None:
        """Take a finished *row* along into the active version, in the state it has."""
        chain, partition = row.chain, self.active.partition_for(row.id)
        chain.remove(row)
        row.partition = partition
        self.active.chains[chain.state].append(row)

    def stats(self, now: datetime) -> list[QueueStats]:
        """One row a version, ascending."""
        return [
            QueueStats(
                queue=self.name,
                version=version.number,
                partitions=version.partitions,
                paused=self.paused,
                counts=version.counts(),
                oldest_ready_age=_age(version.longest_ready(), now),
            )
            for version in sorted(self.versions.values(), key=lambda version: version.number)
        ]


def _age(since: datetime | None, now: datetime) -> float | None:
    # Not below 0: the clock may have gone back.
    return None if since is None else max(0.0, (now - since).total_seconds())
