"""One queue: the moves of its jobs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from scheduler.clock import later
from scheduler.jobs import LEASE_EXPIRED, NewJob
from scheduler.queues import QueueStats, Retention
from scheduler.states import TERMINAL, JobState
from scheduler_backends.memory.groups import LeaseBatch
from scheduler_backends.memory.places import QueueIndexes
from scheduler_backends.memory.stored_job import StoredJob


class MemoryQueue(QueueIndexes):
    """
    One method a move. Touched only under the store's lock.

    Each writes the fields that the new state needs, then moves the row, which writes the state first. Cut short
    anywhere, the row is wholly in the old state or in the new one once the places are rebuilt, and no attempt is
    counted that was none.
    """

    def __init__(
        self, name: str, version: int, partitions: int, retention: Retention, stir: Callable[[str], None]
    ) -> None:
        super().__init__(name, version, partitions, stir)
        self._kept = {state: retention.seconds(state) for state in TERMINAL}
        self.epoch = 1  # of the topology
        self.turns: dict[str, int] = {}  # by contract method: when this queue last had its turn

    def store(self, new: NewJob, now: datetime) -> StoredJob:
        """→ scheduled or ready."""
        row = StoredJob(new, partition=self.active.partition_for(new.id), run_at=new.run_at_from(now), now=now)
        self.add(row)
        return row

    def promote(self, now: datetime, limit: int) -> int:
        """Scheduled, retry_wait → ready, as far as they are due, urgent ones first; answers how many."""
        moved = 0
        for due in self._due:
            while moved < limit and (row := due.next_until(now)) is not None:
                self._become_ready(row, now)
                moved += 1
        return moved

    def lease(self, group: LeaseBatch, limit: int) -> list[StoredJob]:
        """Ready → leased by *group*; the partitions take turns."""
        rows: list[StoredJob] = []
        turns = self._turns
        share = max(1, limit // max(1, len(turns)))
        while turns and len(rows) < limit:
            partition = turns[0]
            wanted = min(limit, len(rows) + share)
            while (row := partition.next_ready()) is not None and len(rows) < wanted:
                row.group = group
                self.move(row, JobState.LEASED)
                row.attempts += 1
                rows.append(row)
            turns.rotate(-1)
            if row is None:
                turns.pop()
                partition.in_turn = False
        return rows

    def finish(self, row: StoredJob, state: JobState, now: datetime) -> None:
        """→ *state*, which is terminal, or away at once if such jobs are not kept."""
        if self._kept[state] == 0:
            self.delete(row)
        else:
            row.finished_at = now
            self.move(row, state)

    def retry(self, row: StoredJob, delay: float, now: datetime) -> None:
        """Leased → retry_wait, or ready where there is no delay."""
        due_at = later(now, delay)
        if due_at > now:
            row.due_at, row.retry_delay = due_at, delay
            self.move(row, JobState.RETRY_WAIT)
        else:
            self._become_ready(row, now)

    def release(self, row: StoredJob) -> None:
        """Leased → ready, first in line: it has been ready since before it was leased."""
        row.give_back()
        self.move(row, JobState.READY, first=True)

    def recover(self, row: StoredJob, now: datetime) -> bool:
        """Leased → ready (True) or dead (False)."""
        row.crashes += 1
        row.record_error(LEASE_EXPIRED, now)
        if row.attempts > row.max_retries:
            self.finish(row, JobState.DEAD, now)
            return False
        self._become_ready(row, now)
        return True

    def requeue(self, row: StoredJob, now: datetime) -> None:
        """Dead → ready, attempts and crashes 0."""
        row.attempts = row.crashes = 0
        self._become_ready(row, now)

    def _become_ready(self, row: StoredJob, now: datetime) -> None:
        row.ready_at = now
        self.move(row, JobState.READY)

    def trim(self, now: datetime, limit: int) -> int:
        """Forget finished jobs that are kept no longer; answers how many."""
        gone = 0
        for state, finished in self._finished.items():
            kept = timedelta(seconds=self._kept[state])
            while gone < limit and (first := finished.first()) is not None and now - first[0] >= kept:
                self.delete(first[1])
                gone += 1
        return gone

    def purge(self, state: JobState, limit: int) -> int:
        """Forget jobs in *state*; answers how many."""
        gone = 0
        for version in self.versions.values():
            for _, _, chain in version.places_of(state):
                while gone < limit and chain.first is not None:
                    self.delete(chain.first)
                    gone += 1
        return gone

    def move_to_active(self, row: StoredJob) -> None:
        """Take a finished *row* along into the active version, in the state that it has."""
        row.partition = self.active.partition_for(row.id)
        row.chain.remove(row)
        self.active.chains[row.state].append(row)

    def clock_went_back(self, now: datetime) -> None:
        """Leave no lease and no retry more time than it asked for: the old time may be years ahead."""
        self.leases.clock_went_back(now)
        for version in self.versions.values():
            for row in version.chains[JobState.RETRY_WAIT].following():
                if row.due_at is not None and row.retry_delay is not None and row.due_at > later(now, row.retry_delay):
                    self.postpone(row, later(now, row.retry_delay))

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
