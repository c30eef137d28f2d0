"""What this process knows of the partitions of queues that are served together: no call need ask them all."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping, Sequence
from itertools import cycle, islice
from typing import Protocol

from scheduler_backends.redis.keys import Partition
from scheduler_backends.redis.layout import Layout

FEW = 8  # partitions that are asked in every call, whatever is known of them
NEVER = -1  # microseconds, as scripts write that nothing waits
NOW = 0.0  # a due time that has passed
UNKNOWN = -1.0  # instead of a due time: the partition must be looked at
LOOK_EVERY = 0.5  # seconds between two steps of the slow round
LEAST_WORTH = 4.0  # jobs
MOST_WORTH = 32.0


class Listener(Protocol):
    """A waiter whose connection is subscribed to the notifications of some queues."""

    queues: frozenset[str]

    def is_active(self) -> bool:
        """Whether another thread reads what is received."""
        ...


class Served:
    """
    The partitions of some queues, and hints of what there is to do in them. A lost hint costs time and no job.

    Any thread: the operations of sets and dictionaries are atomic. What is known of a partition is dropped before it is
    asked, so that a notification that comes meanwhile stays.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.queues = frozenset(names)
        self.rotation = cycle(self.names)  # whose layout is read next although it has not changed, as far as is known
        self.layouts: dict[str, Layout] = {}
        self.suspected: set[str] = set()  # queues that have changed, or may have, since their layout was read
        self.is_read = False  # all layouts, by this process, as far as they can be read
        self.partitions: tuple[Partition, ...] = ()
        self.by_tag: dict[bytes, Partition] = {}  # replaced as a whole
        self.since = -1  # the subscription since which the hints hold
        self.listeners: Sequence[Listener] = ()  # that receive the notifications of all the queues
        self.unglanced: set[Partition] = set()  # of which it is not known whether they have ready jobs
        self.worth = LEAST_WORTH  # jobs that are asked of a partition where many queues take turns
        self._lock = threading.RLock()  # guards the next and the partitions; re-entrant for finalisers, signal handlers
        self._ready: dict[str, dict[Partition, None]] = {}  # by queue: partitions with ready jobs, in order of turns
        self._due: dict[Partition, float] = {}  # when the next job is due, by time.monotonic()
        self._expiries: dict[Partition, float] = {}  # when the first lease expires, where a look has found one
        self._looked_at = -LOOK_EVERY  # when the slow round went on last, by time.monotonic()
        self._places: dict[str, int] = {}

    def update(self, layouts: Mapping[str, Layout]) -> None:
        """Take over layouts that were read. Nothing is known of partitions that are new."""
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
        self.unglanced.update(new)
        self._due.update(dict.fromkeys(new, UNKNOWN))
        self.by_tag, self.partitions = by_tag, tuple(by_tag.values())
        kept = {
            queue: {one: None for one in list(some) if one.tag in by_tag} for queue, some in list(self._ready.items())
        }
        self._ready = {queue: some for queue, some in kept.items() if some}
        for gone in before.keys() - by_tag.keys():
            self.unglanced.discard(before[gone])
            self._due.pop(before[gone], None)
            self._expiries.pop(before[gone], None)

    def forget(self) -> None:
        """Notifications may have been missed: all partitions are to be looked at."""
        self.unglanced = set(self.partitions)
        self._due.update(dict.fromkeys(self.partitions, UNKNOWN))

    def in_turn(self, purpose: str, count: int) -> Sequence[Partition]:
        """The next *count* partitions, so that all have their turn after a while. All of them where there are fewer."""
        total = len(self.partitions)
        if total <= count:
            return self.partitions
        # Several workers begin at different places, and share the round.
        first = self._places.get(purpose)
        if first is None:
            first = random.randrange(total)
        self._places[purpose] = (first + count) % total
        return [self.partitions[(first + step) % total] for step in range(count)]

    # ---- ready jobs

    def has_ready(self, partition: Partition) -> None:
        """*partition* has ready jobs, or may have."""
        with self._lock:
            self._ready.setdefault(partition.queue, {})[partition] = None

    def is_hinted(self, partition: Partition) -> bool:
        """Whether *partition* is known to have ready jobs, or may have."""
        return partition in self._ready.get(partition.queue, ())

    def asked_for_jobs(self, partition: Partition) -> None:
        """*partition* is asked now. It and its queue go to the end once it is known to have more."""
        self.unglanced.add(partition)
        with self._lock:
            of_queue = self._ready.pop(partition.queue, {})
            of_queue.pop(partition, None)
            if of_queue:  # a call inside this one may have added some
                self._ready.setdefault(partition.queue, of_queue).update(of_queue)

    def answered(self, partition: Partition, *, more: bool) -> None:
        """*partition* has answered whether it has more ready jobs."""
        self.unglanced.discard(partition)
        if more:
            self.has_ready(partition)

    def next_ready(self, most: int) -> list[list[Partition]]:
        """The partitions with ready jobs of the first queues, at most so many, in the order of turns."""
        with self._lock:
            while True:
                try:
                    return [list(of_queue) for of_queue in islice(self._ready.values(), most)]
                except RuntimeError:  # a call inside this one has changed them
                    continue

    def gave(self, count: int, share: int) -> None:
        """
        A partition has given so many of the jobs that were asked of it.

        What is asked of each follows that: so few partitions are asked that each has what its script is worth.
        """
        wanted = 2.0 * share if count == share else 1.5 * count
        self.worth = min(max(self.worth + (wanted - self.worth) / 16, LEAST_WORTH), MOST_WORTH)

    # ---- due jobs

    def has_sooner(self, partition: Partition) -> None:
        """In *partition* a job is due earlier than known."""
        self._due[partition] = NOW

    def to_promote(self) -> Sequence[Partition]:
        """Partitions in which a job is due, or may be. To be promoted now."""
        now = time.monotonic()
        return self.asked_for_due([one for one, due in list(self._due.items()) if NOW <= due <= now])

    def to_look_at(self) -> Sequence[Partition]:
        """Partitions of which nothing is known, and some in turn whose notifications may have been lost."""
        some = [one for one, due in list(self._due.items()) if due == UNKNOWN]
        now = time.monotonic()
        if now - self._looked_at >= LOOK_EVERY:
            self._looked_at = now
            some = list(dict.fromkeys((*some, *self.in_turn("look", FEW))))
        return self.asked_for_due(some)

    def asked_for_due(self, partitions: Sequence[Partition]) -> Sequence[Partition]:
        """*partitions*, which are asked now."""
        self._due.update(dict.fromkeys(partitions, UNKNOWN))
        return partitions

    def note_due(self, partition: Partition, wait_us: int) -> None:
        """The next job of *partition* is due in *wait_us* microseconds. A notification that came meanwhile stays."""
        if self._due.get(partition, UNKNOWN) != UNKNOWN:
            return
        if wait_us == NEVER:
            self._due.pop(partition, None)
        else:
            self._due[partition] = time.monotonic() + wait_us / 1_000_000

    def next_due(self) -> float | None:
        """Seconds until the next job is due, as far as is known."""
        first = min((due for due in list(self._due.values()) if due != UNKNOWN), default=None)
        return None if first is None else max(0.0, first - time.monotonic())

    # ---- expired leases

    def note_expiry(self, partition: Partition, wait_us: int) -> None:
        """The first lease of *partition* expires in *wait_us* microseconds, as a look has found."""
        if wait_us != NEVER:
            self._expiries[partition] = time.monotonic() + wait_us / 1_000_000

    def expired(self, most: int) -> list[Partition]:
        """Partitions with leases that may have expired; to be recovered now."""
        now = time.monotonic()
        found = [one for one, at in list(self._expiries.items()) if at <= now][:most]
        for one in found:
            self._expiries.pop(one, None)
        return found
