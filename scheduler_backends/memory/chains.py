"""Rows of one state in order: a linked list, so that a row leaves from anywhere at once and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator

from scheduler.states import JobState
from scheduler_backends.memory.stored_job import StoredJob


class JobList:
    """
    A doubly linked list through the rows themselves.

    A deque would keep cancelled rows until they reach its end, and an OrderedDict cannot be entered in the middle,
    where the next page of a list begins. Stamps ascend from first to last.
    """

    __slots__ = ("_highest", "_lowest", "first", "last", "size", "state")

    def __init__(self, state: JobState) -> None:
        self.state = state
        self.first: StoredJob | None = None
        self.last: StoredJob | None = None
        self.size = 0
        self._lowest = 0
        self._highest = 0

    def append(self, row: StoredJob) -> None:
        """Put *row*, which is in no chain, last."""
        self._highest += 1
        row.stamp = self._highest
        row.chain = self
        row.after = None
        row.before = last = self.last
        if last is None:
            self.first = row
        else:
            last.after = row
        self.last = row
        self.size += 1

    def prepend(self, row: StoredJob) -> None:
        """Put *row*, which is in no chain, first."""
        self._lowest -= 1
        row.stamp = self._lowest
        row.chain = self
        row.before = None
        row.after = first = self.first
        if first is None:
            self.last = row
        else:
            first.before = row
        self.first = row
        self.size += 1

    def remove(self, row: StoredJob) -> None:
        """Take *row* out."""
        before, after = row.before, row.after
        if before is None:
            self.first = after
        else:
            before.after = after
        if after is None:
            self.last = before
        else:
            after.before = before
        row.before = row.after = None
        self.size -= 1

    def following(self, stamp: int | None = None, hint: StoredJob | None = None) -> Iterator[StoredJob]:
        """
        The rows behind *stamp* (None = all), first to last. *hint*: the row that had it, if it is still known.

        Only where that row has gone elsewhere are the rows before the stamp walked over.
        """
        if stamp is not None and hint is not None and hint.chain is self and hint.stamp == stamp:
            row = hint.after
        else:
            row = self.first
            while stamp is not None and row is not None and row.stamp <= stamp:
                row = row.after
        while row is not None:
            yield row
            row = row.after
