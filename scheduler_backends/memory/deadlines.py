"""Stored jobs by their deadlines."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from datetime import datetime
from heapq import heapify, heappop, heappush, heapreplace

from scheduler_backends.memory.stored_job import StoredJob

_SLACK = 64  # removed entries that are not worth a cleaning

# One counter for all heaps: a job that has left one and entered another must not make its old entry valid again.
_entry_ids = itertools.count(1)


class DeadlineHeap:
    """
    A heap of deadlines with lazy deletion. A job has one valid entry, in one heap, at a time.

    The entry of a removed job stays until it reaches the top, or until such entries outnumber the valid ones by a small
    constant: the heap is then built anew, which costs each removal a constant too. Entries hold ids, so that a removed
    job does not stay in memory.
    """

    __slots__ = ("_heap", "_jobs", "size")

    def __init__(self, jobs: Mapping[str, StoredJob]) -> None:
        self._heap: list[tuple[datetime, int, str]] = []
        self._jobs = jobs
        self.size = 0  # valid entries

    def add(self, stored: StoredJob, deadline: datetime) -> None:
        """Add *stored*, which is in no heap."""
        stored.heap, stored.entry_id, stored.listed_at = self, next(_entry_ids), deadline
        heappush(self._heap, (deadline, stored.entry_id, stored.id))
        self.size += 1

    def remove(self, stored: StoredJob) -> None:
        """Take *stored* out."""
        stored.heap, stored.entry_id = None, 0
        self.size -= 1
        if len(self._heap) > 2 * self.size + _SLACK:
            find = self._jobs.get
            self._heap = [entry for entry in self._heap if (job := find(entry[2])) and job.entry_id == entry[1]]
            heapify(self._heap)

    def change(self, stored: StoredJob, deadline: datetime) -> None:
        """
        Give *stored* another deadline.

        A later one is entered only when the entry with the earlier one reaches the top, so that jobs whose leases are
        renewed all the time leave nothing behind.
        """
        stored.deadline = deadline
        if deadline < stored.listed_at:
            self.remove(stored)
            self.add(stored, deadline)

    def first(self) -> StoredJob | None:
        """The job with the earliest deadline, None if the heap is empty."""
        heap = self._heap
        while heap:
            moment, entry_id, id = heap[0]
            stored = self._jobs.get(id)
            if stored is None or stored.entry_id != entry_id or stored.deadline is None:
                heappop(heap)
            elif stored.deadline > moment:
                stored.listed_at = stored.deadline
                heapreplace(heap, (stored.deadline, entry_id, id))
            else:
                return stored
        return None

    def next(self) -> datetime | None:
        """The earliest deadline, None if the heap is empty."""
        first = self.first()
        return None if first is None else first.deadline

    def first_until(self, now: datetime) -> StoredJob | None:
        """The job with the earliest deadline, if that has come."""
        stored = self.first()
        return None if stored is None or stored.deadline is None or stored.deadline > now else stored
