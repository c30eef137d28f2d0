"""A queue's versions and their partitions: where rows are, by state."""

from __future__ import annotations

from datetime import datetime

from scheduler.jobs import Priority
from scheduler.states import JobState
from scheduler.topology import partition_of
from scheduler_backends.memory.chains import JobList
from scheduler_backends.memory.stored_job import StoredJob

_KEPT_BY_VERSION = tuple(state for state in JobState if state is not JobState.READY)


class Partition:
    """The ready jobs of one partition: a chain a priority, the most urgent first."""

    __slots__ = ("in_turn", "index", "ready", "version")

    def __init__(self, version: Version, index: int) -> None:
        self.version = version
        self.index = index
        self.clear()

    def clear(self) -> None:
        """Have no rows."""
        self.ready = tuple(JobList(JobState.READY) for _ in Priority)
        self.in_turn = False  # whether it stands in the queue's turns

    def next_ready(self) -> StoredJob | None:
        """The row that is to be leased next."""
        for chain in self.ready:
            if chain.first is not None:
                return chain.first
        return None


class Version:
    """One version of a queue. Partitions are made when first used; all states but ready are kept for all of them."""

    __slots__ = ("_used", "chains", "number", "partitions", "queue")

    def __init__(self, queue: str, number: int, partitions: int) -> None:
        self.queue = queue
        self.number = number
        self.partitions = partitions
        self._used: dict[int, Partition] = {}
        self.clear()

    def clear(self) -> None:
        """Have no rows."""
        self.chains: dict[JobState, JobList] = {state: JobList(state) for state in _KEPT_BY_VERSION}
        for partition in self._used.values():
            partition.clear()

    def partition_for(self, job_id: str) -> Partition:
        """Where the job belongs."""
        index = partition_of(job_id, self.partitions) if self.partitions > 1 else 0
        found = self._used.get(index)
        if found is None:
            found = self._used[index] = Partition(self, index)
        return found

    def places_of(self, state: JobState) -> list[tuple[int, int, JobList]]:
        """All chains of *state*, ascending by partition and priority (0 and 0 where those are not kept apart)."""
        if state is not JobState.READY:
            return [(0, 0, self.chains[state])]
        used = (self._used[index] for index in sorted(self._used))
        return [(partition.index, level, chain) for partition in used for level, chain in enumerate(partition.ready)]

    def counts(self) -> dict[JobState, int]:
        """How many jobs there are in each state, zeros included."""
        return {state: sum(chain.size for _, _, chain in self.places_of(state)) for state in JobState}

    def longest_ready(self) -> datetime | None:
        """When the ready job that has waited longest became ready."""
        firsts = (chain.first for _, _, chain in self.places_of(JobState.READY))
        return min((row.ready_at for row in firsts if row is not None), default=None)
