"""What happens when: a heap by moments, from which entries may be withdrawn."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from heapq import heapify, heappop, heappush
from typing import Generic, Protocol, TypeVar

LATEST = datetime.max.replace(tzinfo=UTC)
_SLACK = 64  # withdrawn entries that are not worth a clearing

# One counter for all timetables: an item withdrawn from one and put into another must not revive its old entry.
_tickets = itertools.count(1)


class Timed(Protocol):
    """What a timetable lists. The entry_id is the timetable's own."""

    entry_id: int


T = TypeVar("T", bound=Timed)


class DeadlineHeap(Generic[T]):
    """
    Items by moment, equal moments in the order they were added. An item has one entry, in one timetable, at a time.

    A withdrawn entry stays in the heap until it comes up, or until such entries outnumber the valid ones by a small
    constant: the heap is then built anew, which costs each withdrawal a constant too.
    """

    __slots__ = ("_heap", "size")

    def __init__(self) -> None:
        self._heap: list[tuple[datetime, int, T]] = []
        self.size = 0  # valid entries

    def add(self, moment: datetime, item: T) -> None:
        """List *item*, which is in no timetable."""
        item.entry_id = next(_tickets)
        heappush(self._heap, (moment, item.entry_id, item))
        self.size += 1

    def withdraw(self, item: T) -> None:
        """Take *item* off the list."""
        item.entry_id = 0
        self.size -= 1
        if len(self._heap) > 2 * self.size + _SLACK:
            self._heap = [entry for entry in self._heap if entry[2].entry_id == entry[1]]
            heapify(self._heap)

    def first(self) -> tuple[datetime, T] | None:
        """The earliest moment and its item."""
        heap = self._heap
        while heap:
            moment, entry_id, item = heap[0]
            if item.entry_id == entry_id:
                return moment, item
            heappop(heap)
        return None

    def next_until(self, moment: datetime) -> T | None:
        """The item that comes first, if its time has come at *moment*."""
        first = self.first()
        return first[1] if first is not None and first[0] <= moment else None
