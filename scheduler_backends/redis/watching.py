"""What this process knows of partitions because it listens to their news, so that it need not ask all of them."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator, Sequence
from typing import Protocol

from scheduler_backends.redis.calls import Calls
from scheduler_backends.redis.keys import Partition
from scheduler_backends.redis.rosters import FEW, Roster

NEVER = -1  # microseconds, as scripts write that nothing waits
KNOWN = 100_000  # hints; when there are more, it is better to look
LEAST_WORTH = 4.0  # jobs
MOST_WORTH = 32.0
LOOK_EVERY = 0.5  # seconds between two steps of the slow round
SCAN = 256  # hints from which on queues are asked for their hints, and not hints for their queues


class Listener(Protocol):
    """A waiter whose connection is subscribed to the news of some queues."""

    names: frozenset[str]

    def is_heeded(self) -> bool:
        """Whether another thread reads what comes."""
        ...


class Watch:
    """
    Hints, and nothing else: a lost one costs time and no job.

    Any thread: the operations of sets and dictionaries are atomic. A partition is taken off a set before it is asked,
    so that news of it that come meanwhile stay. Where nobody listens, or where there are but few partitions, nothing
    is relied on: all are asked.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._pid = os.getpid()
        self._forget()

    def _forget(self) -> None:
        self._listeners: list[Listener] = []
        self._since = 0  # grows whenever something may have been missed
        self._ready: set[bytes] = set()  # that had more when last looked at, or of which a message said so
        self._sooner: set[bytes] = set()  # of which a message said that a job is due sooner than thought
        self._due: dict[bytes, float] = {}  # when the next job is due, by time.monotonic()
        self._expiries: dict[bytes, float] = {}  # when the first lease expires, of partitions that a round came to
        self._looked_at = -LOOK_EVERY  # when the slow round went on last, by time.monotonic()
        self._queues_served = 0
        self.worth = LEAST_WORTH  # jobs that are asked of a partition where many queues take turns

    # ---- what is heard

    def subscribed(self, listener: Listener) -> None:
        """*listener* hears all that is published from now on; what came before may have been missed."""
        self._after_fork()
        if listener not in self._listeners:
            self._listeners.append(listener)
        self._since += 1

    def lost(self, listener: Listener) -> None:
        """*listener* hears nothing any more."""
        self._after_fork()
        if listener in self._listeners:
            self._listeners.remove(listener)

    def doubt(self) -> None:
        """A server was away, and may have lost news with it."""
        self._since += 1

    def has_ready(self, tag: bytes) -> None:
        """A partition has ready jobs, or may have."""
        if len(self._ready) > KNOWN:
            self._ready.clear()
            self.doubt()
        self._ready.add(tag)

    def has_sooner(self, tag: bytes) -> None:
        """In a partition a job is due sooner than thought."""
        self._sooner.add(tag)

    # ---- what is relied on

    def relies(self, roster: Roster) -> bool:
        """Whether what is not known of the roster's partitions need not be asked for."""
        self._after_fork()
        if len(roster.partitions) <= FEW or self._calls.clock is not None:  # which may jump, and is no server's
            return False
        if roster.since != self._since:
            roster.forget(self._since)
        return any(one.names >= roster.names and one.is_heeded() for one in tuple(self._listeners))

    def hinted(self, roster: Roster, most: int, few: int) -> tuple[list[list[Partition]], bool]:
        """
        By queue, the partitions that have ready jobs, and whether further queues have some.

        Of all queues, or of *few* in turn where more than *most* have some, or very many partitions.
        """
        if not self._ready:
            return [], False
        if len(self._ready) > SCAN:
            return self._scanned(roster, few)
        groups: dict[str, list[Partition]] = {}
        for partition in roster.those(self._ready):
            groups.setdefault(partition.queue, []).append(partition)
        if len(groups) <= most:
            return list(groups.values()), False
        return self._scanned(roster, few)

    def next_in_turn(self, roster: Roster, most: int) -> list[Partition]:
        """Of the queues whose turn comes next, at most so many, the partition with ready jobs that is asked first."""
        turns = itertools.islice(self._from_turn(roster), most)
        return [one for some, _ in turns for one in roster.next_of(some, 1)]

    def _scanned(self, roster: Roster, most: int) -> tuple[list[list[Partition]], bool]:
        found: list[list[Partition]] = []
        for some, place in self._from_turn(roster):
            if len(found) == most:
                self._queues_served = place
                return found, True
            found.append(some)
        return found, False

    def _from_turn(self, roster: Roster) -> Iterator[tuple[list[Partition], int]]:
        """Of each queue that has some, the partitions with ready jobs, and its place, from the one whose turn it is."""
        names = tuple(roster.by_queue)
        first = self._queues_served  # another call may move it meanwhile
        for step in range(len(names)):
            place = (first + step) % len(names)
            if some := [one for one in roster.by_queue[names[place]] if one.tag in self._ready]:
                yield some, place

    def gave(self, count: int, share: int) -> None:
        """
        A partition has given so many of the jobs that were asked of it.

        What is asked of each follows that: so few partitions are asked that each has what its script is worth.
        """
        wanted = 2.0 * share if count == share else 1.5 * count
        self.worth = min(max(self.worth + (wanted - self.worth) / 16, LEAST_WORTH), MOST_WORTH)

    def asked_for_jobs(self, roster: Roster, partition: Partition) -> None:
        """It is asked now: what was heard of it before is settled by the answer, and until then nothing is known."""
        roster.unglanced.add(partition.tag)
        self._ready.discard(partition.tag)

    def answered(self, roster: Roster, partition: Partition, *, more: bool) -> None:
        """Whether it has ready jobs."""
        roster.unglanced.discard(partition.tag)
        if more:
            self.has_ready(partition.tag)

    def failed(self, roster: Roster, partition: Partition) -> None:
        """It did not answer."""
        roster.unglanced.add(partition.tag)

    # ---- what is due

    def to_promote(self, roster: Roster) -> list[Partition]:
        """The partitions in which a job is due, or may be. To be promoted now: what was known of them is dropped."""
        now = time.monotonic()
        tags = [tag for tag in tuple(self._sooner) if tag in roster.place]
        tags += [tag for tag, due in list(self._due.items()) if due <= now and tag in roster.place]
        for tag in tags:
            self._sooner.discard(tag)
            self._due.pop(tag, None)
        return roster.those(set(tags))

    def to_look_at(self, roster: Roster) -> list[Partition]:
        """Partitions of which nothing is known, and some in turn whose notifications may have been lost."""
        unknown = roster.those(roster.unlooked)
        now = time.monotonic()
        if now - self._looked_at < LOOK_EVERY:
            return unknown
        self._looked_at = now
        return list(dict.fromkeys((*unknown, *roster.in_turn("look", FEW))))

    def note_due(self, roster: Roster, partition: Partition, wait_us: int) -> None:
        """The partition has said in how many microseconds its next job is due."""
        roster.unlooked.discard(partition.tag)
        if wait_us == NEVER:
            self._due.pop(partition.tag, None)
        else:
            self._due[partition.tag] = time.monotonic() + wait_us / 1_000_000

    def not_promoted(self, roster: Roster, partition: Partition) -> None:
        """It did not answer."""
        roster.unlooked.add(partition.tag)

    def next_due(self, roster: Roster) -> float | None:
        """Seconds until the next job is due, as far as is known."""
        if any(tag in roster.place for tag in tuple(self._sooner)):
            return 0.0
        first = min((due for tag, due in list(self._due.items()) if tag in roster.place), default=None)
        return None if first is None else max(0.0, first - time.monotonic())

    # ---- what has expired

    def note_expiry(self, partition: Partition, wait_us: int) -> None:
        """A look has found a lease that expires in so many microseconds."""
        if wait_us != NEVER:
            self._expiries[partition.tag] = time.monotonic() + wait_us / 1_000_000

    def expired(self, roster: Roster, most: int) -> Sequence[Partition]:
        """Partitions with leases that may have expired; to be recovered now."""
        now = time.monotonic()
        tags = [tag for tag, at in list(self._expiries.items()) if at <= now and tag in roster.place][:most]
        for tag in tags:
            self._expiries.pop(tag, None)
        return roster.those(tags)

    def _after_fork(self) -> None:
        if self._pid != os.getpid():  # what the parent hears, this process does not
            self._pid = os.getpid()
            self._forget()
