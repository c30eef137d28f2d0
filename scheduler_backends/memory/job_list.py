"""Stored jobs in a linked list, which a job can leave or enter anywhere at once."""

from __future__ import annotations

from collections.abc import Iterator

from scheduler_backends.memory.stored_job import Node, StoredJob


class JobList(Node):
    """
    A doubly linked ring through the jobs themselves; the list is its own first and last node.

    A deque would keep cancelled jobs until they reach its end, and an OrderedDict cannot be entered in the middle,
    where the next page of a list begins. Serials ascend from first to last.
    """

    __slots__ = ("size",)

    def __init__(self) -> None:
        self.before = self.after = self
        self.size = 0

    @property
    def first(self) -> StoredJob | None:
        """The first job, None in an empty list."""
        return self.after if isinstance(self.after, StoredJob) else None

    def add(self, stored: StoredJob, *, first: bool = False) -> None:
        """Put *stored*, which is in no list, at the end or at the beginning."""
        before = self if first else self.before
        after = before.after
        stored.before, stored.after = before, after
        before.after = after.before = stored
        stored.home = self
        self.size += 1

    def remove(self, stored: StoredJob) -> None:
        """Take *stored* out."""
        stored.before.after, stored.after.before = stored.after, stored.before
        self.size -= 1

    def after_serial(self, serial: float, near: StoredJob | None = None) -> Iterator[StoredJob]:
        """
        Iterate over the jobs with a higher serial. near: the job of this list that has the serial, if there is one.

        Without it, the jobs before the serial are walked over.
        """
        node = self.after if near is None else near.after
        while isinstance(node, StoredJob):
            if node.serial > serial:
                yield node
            node = node.after
