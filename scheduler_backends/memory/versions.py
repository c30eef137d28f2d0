"""A queue's versions and their partitions, which hold the stored jobs by state."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from scheduler.jobs import Priority
from scheduler.states import JobState
from scheduler.topology import partition_of
from scheduler_backends.memory.job_list import JobList
from scheduler_backends.memory.stored_job import StoredJob


class Partition:
    """The ready jobs of one partition: a list for each priority, the most urgent first."""

    __slots__ = ("in_turn", "index", "ready", "version")

    def __init__(self, version: Version, index: int) -> None:
        self.version = version
        self.index = index
        self.ready = tuple(JobList() for _ in Priority)
        self.in_turn = False  # whether it is among the queue's turns


class Version:
    """One version of a queue. Lists and partitions are made when first used; only ready jobs are kept by partition."""

    __slots__ = ("_lists", "_partitions", "number", "partitions")

    def __init__(self, number: int, partitions: int) -> None:
        self.number = number
        self.partitions = partitions
        self._lists: dict[JobState, JobList] = {}
        self._partitions: dict[int, Partition] = {}

    def partition_for(self, job_id: str) -> Partition:
        """The partition that the job belongs to."""
        index = partition_of(job_id, self.partitions) if self.partitions > 1 else 0
        found = self._partitions.get(index)
        if found is None:
            found = self._partitions[index] = Partition(self, index)
        return found

    def list_of(self, state: JobState) -> JobList:
        """The list of the jobs in *state*, which is not ready."""
        found = self._lists.get(state)
        if found is None:
            found = self._lists[state] = JobList()
        return found

    def lists(self, state: JobState) -> list[tuple[int, int, JobList]]:
        """All lists of *state*, ascending by partition and priority (0 and 0 where those are not kept apart)."""
        if state is not JobState.READY:
            return [(0, 0, self._lists[state])] if state in self._lists else []
        partitions = [self._partitions[index] for index in sorted(self._partitions)]
        return [(each.index, priority, jobs) for each in partitions for priority, jobs in enumerate(each.ready)]

    def jobs(self, state: JobState) -> Iterator[StoredJob]:
        """Iterate over the jobs in *state*."""
        return (stored for _, _, jobs in self.lists(state) for stored in jobs.after_serial(float("-inf")))

    def counts(self) -> dict[JobState, int]:
        """How many jobs there are in each state, zeros included."""
        return {state: sum(jobs.size for _, _, jobs in self.lists(state)) for state in JobState}

    def longest_ready(self) -> datetime | None:
        """When the job became ready that has been ready for longest."""
        firsts = (jobs.first for _, _, jobs in self.lists(JobState.READY))
        return min((first.ready_at for first in firsts if first is not None), default=None)
