"""Hints about the partitions of queues that are served together, so that a call need not ask all of them."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping, Sequence
from itertools import cycle, islice
from typing import Protocol

from scheduler_backends.redis.keys import Partition
from scheduler_backends.redis.layout import Layout

FEW = 8  # partitions: up to this number, every call asks all of them, without hints
NEVER = -1  # microseconds: what scripts return if nothing is waiting
NOW = 0.0  # a due time that has passed
UNKNOWN = -1.0  # in place of a due time: the partition must be checked
LOOK_EVERY = 0.5  # seconds between two steps of the slow rotation over all partitions
LEAST_WORTH = 4.0  # jobs, as MOST_WORTH: the limits of `Served.worth`
MOST_WORTH = 32.0


class Listener(Protocol):
    """A waiter that is subscribed to the notifications of some queues."""

    queues: frozenset[str]

    def is_active(self) -> bool:
        """Return whether another thread currently receives the notifications."""
        ...


class Served:
    """
    Partitions of some queues, with hints about their ready jobs, due jobs and expired leases.

    A lost hint delays jobs, but loses none. Thread-safe: single operations of sets and dictionaries are atomic. The
    hint for a partition is removed before the partition is asked, so that a notification received meanwhile is kept.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.queues = frozenset(names)
        self.rotation = cycle(self.names)  # the queues whose layouts are read without a detected change
        self.layouts: dict[str, Layout] = {}
        self.stale: set[str] = set()  # queues whose layout may have changed since it was read
        self.is_read = False  # whether this process has read all layouts that can be read
        self.partitions: tuple[Partition, ...] = ()
        self.by_tag: dict[bytes, Partition] = {}  # never modified: replaced as a whole
        self.since = -1  # the value of Serving._since when the hints were last reset
        self.listeners: Sequence[Listener] = ()  # those that receive the notifications of all these queues
        self.unchecked: set[Partition] = set()  # partitions that may have ready jobs without a hint
        self.worth = LEAST_WORTH  # how many jobs to ask of a partition while many queues are served in rotation
        self._lock = threading.RLock()  # guards `_ready` and partitions; re-entrant for finalisers and signals
        self._ready: dict[str, dict[Partition, None]] = {}  # by queue: partitions with ready jobs, in rotation order
        self._due: dict[Partition, float] = {}  # when the next job is due, by time.monotonic()
        self._expiries: dict[Partition, float] = {}  # when the first lease expires, by time.monotonic(), if known
        self._looked_at = -LOOK_EVERY  # the last step of the slow rotation, by time.monotonic()
        self._places: dict[str, int] = {}  # by purpose: where the next rotation step begins

    def update(self, layouts: Mapping[str, Layout]) -> None:
        """Apply *layouts* that were read. New partitions must be checked."""
        with self._lock:
            known = self.layouts
            is_other = any(
                name not in known or known[name].partitions != new.partitions for name, new in layouts.items()
            )
            known.update(layouts)
            if is_other:
                self._take_partitions([one for name in self.names if name in known for one in known[name].partitions])

    def _take_partitions(self, partitions: Sequence[Partition]) -> None:
        before, by_tag = self.by_tag, {one.tag: self.by_tag.get(one.tag, one) for one in partitions}
        new = [one for tag, one in by_tag.items() if tag not in before]
        self.unchecked.update(new)
        self._due.update(dict.fromkeys(new, UNKNOWN))
        self.by_tag, self.partitions = by_tag, tuple(by_tag.values())
        kept = {
            queue: {one: None for one in list(some) if one.tag in by_tag} for queue, some in list(self._ready.items())
        }
        self._ready = {queue: some for queue, some in kept.items() if some}
        for gone in before.keys() - by_tag.keys():
            self.unchecked.discard(before[gone])
            self._due.pop(before[gone], None)
            self._expiries.pop(before[gone], None)

    def forget(self) -> None:
        """Drop the hints, since notifications may have been missed: all partitions must be checked."""
        self.unchecked = set(self.partitions)
        self._due.update(dict.fromkeys(self.partitions, UNKNOWN))

    def in_turn(self, purpose: str, count: int) -> Sequence[Partition]:
        """Return the next *count* partitions in the rotation for *purpose*, or all if there are no more than that."""
        total = len(self.partitions)
        if total <= count:
            return self.partitions
        # Random, so that several workers cover different partitions at a time.
        first = self._places.get(purpose)
        if first is None:
            first = random.randrange(total)
        self._places[purpose] = (first + count) % total
        return [self.partitions[(first + step) % total] for step in range(count)]

    # ---- ready jobs

    def note_ready(self, partition: Partition) -> None:
        """Note that *partition* may have ready jobs."""
        with self._lock:
            self._ready.setdefault(partition.queue, {})[partition] = None

    def is_hinted(self, partition: Partition) -> bool:
        """Return whether a hint says that *partition* may have ready jobs."""
        return partition in self._ready.get(partition.queue, ())

    def asked_for_jobs(self, partition: Partition) -> None:
        """Remove the hint for *partition*, which is asked now, and move its queue to the end of the rotation."""
        self.unchecked.add(partition)
        with self._lock:
            of_queue = self._ready.pop(partition.queue, {})
            of_queue.pop(partition, None)
            if of_queue:  # merged: a signal handler may have added hints in between
                self._ready.setdefault(partition.queue, of_queue).update(of_queue)

    def note_answer(self, partition: Partition, *, more: bool) -> None:
        """Note the answer of *partition*: whether it has more ready jobs."""
        self.unchecked.discard(partition)
        if more:
            self.note_ready(partition)

    def next_ready(self, most: int) -> list[list[Partition]]:
        """Return the partitions with ready jobs, grouped by queue, of the first *most* queues in the rotation."""
        with self._lock:
            while True:
                try:
                    return [list(of_queue) for of_queue in islice(self._ready.values(), most)]
                except RuntimeError:  # a signal handler has changed the dictionary
                    continue

    def adapt_worth(self, count: int, share: int) -> None:
        """
        Adapt `worth` to the answer of a partition: *count* jobs, where *share* jobs were asked.

        If partitions return few jobs, more partitions are asked for fewer jobs each, and the other way round.
        """
        wanted = 2.0 * share if count == share else 1.5 * count
        self.worth = min(max(self.worth + (wanted - self.worth) / 16, LEAST_WORTH), MOST_WORTH)

    # ---- due jobs

    def note_earlier(self, partition: Partition) -> None:
        """Note that a job in *partition* is due earlier than known."""
        self._due[partition] = NOW

    def to_promote(self) -> Sequence[Partition]:
        """Return the partitions with jobs that are or may be due. The caller asks them now."""
        now = time.monotonic()
        return self.asked_for_due([one for one, due in list(self._due.items()) if NOW <= due <= now])

    def to_look_at(self) -> Sequence[Partition]:
        """Return the partitions whose due time is unknown, and some in rotation, since notifications may be lost."""
        some = [one for one, due in list(self._due.items()) if due == UNKNOWN]
        now = time.monotonic()
        if now - self._looked_at >= LOOK_EVERY:
            self._looked_at = now
            some = list(dict.fromkeys((*some, *self.in_turn("look", FEW))))
        return self.asked_for_due(some)

    def asked_for_due(self, partitions: Sequence[Partition]) -> Sequence[Partition]:
        """Mark the due times of *partitions*, which are asked now, as unknown. Returns *partitions*."""
        self._due.update(dict.fromkeys(partitions, UNKNOWN))
        return partitions

    def note_due(self, partition: Partition, wait_us: int) -> None:
        """Note that the next job of *partition* is due in *wait_us* us, unless a notification came meanwhile."""
        if self._due.get(partition, UNKNOWN) != UNKNOWN:
            return
        if wait_us == NEVER:
            self._due.pop(partition, None)
        else:
            self._due[partition] = time.monotonic() + wait_us / 1_000_000

    def next_due(self) -> float | None:
        """Return the seconds until the next known due time. None = no due time is known."""
        first = min((due for due in list(self._due.values()) if due != UNKNOWN), default=None)
        return None if first is None else max(0.0, first - time.monotonic())

    # ---- expired leases

    def note_expiry(self, partition: Partition, wait_us: int) -> None:
        """Note that the first lease of *partition* expires in *wait_us* microseconds."""
        if wait_us != NEVER:
            self._expiries[partition] = time.monotonic() + wait_us / 1_000_000

    def expired(self, most: int) -> list[Partition]:
        """Return up to *most* partitions whose first lease may have expired. The caller recovers them now."""
        now = time.monotonic()
        found = [one for one, at in list(self._expiries.items()) if at <= now][:most]
        for one in found:
            self._expiries.pop(one, None)
        return found
