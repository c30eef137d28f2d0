"""What is known of partitions from their notifications, so that a call need not ask all of them."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Protocol

from scheduler_backends.redis.calls import Calls
from scheduler_backends.redis.hints import ReadyHints
from scheduler_backends.redis.keys import Partition
from scheduler_backends.redis.rosters import FEW, Roster

NEVER = -1  # microseconds, as scripts write that nothing waits
LEAST_WORTH = 4.0  # jobs
MOST_WORTH = 32.0
LOOK_EVERY = 0.5  # seconds between two steps of the slow round


class Listener(Protocol):
    """A waiter whose connection is subscribed to the notifications of some queues."""

    names: frozenset[str]

    def is_active(self) -> bool:
        """Whether another thread reads what is received."""
        ...


class Watch:
    """
    Hints, and nothing else: a lost one costs time and no job.

    Any thread: the operations of sets and dictionaries are atomic. A partition is taken off a set before it is asked,
    so that a notification that comes meanwhile stays. Where none are received, or where there are only few partitions,
    nothing is relied on: all are asked.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._pid = os.getpid()
        self._forget()

    def _forget(self) -> None:
        self._listeners: list[Listener] = []
        self._since = 0  # grows whenever something may have been missed
        self.ready = ReadyHints()
        self._sooner: set[bytes] = set()  # with a job due earlier than known, by a message
        self._due: dict[bytes, float] = {}  # when the next job is due, by time.monotonic()
        self._expiries: dict[bytes, float] = {}  # when the first lease expires, of partitions that a round came to
        self._looked_at = -LOOK_EVERY  # when the slow round went on last, by time.monotonic()
        self.worth = LEAST_WORTH  # jobs that are asked of a partition where many queues take turns

    # ---- notifications

    def subscribed(self, listener: Listener) -> None:
        """*listener* receives what is published from now on. What came before may have been missed."""
        self._after_fork()
        if listener not in self._listeners:
            self._listeners.append(listener)
        self._since += 1

    def lost(self, listener: Listener) -> None:
        """*listener* receives nothing any more."""
        self._after_fork()
        if listener in self._listeners:
            self._listeners.remove(listener)

    def doubt(self) -> None:
        """A server was away: notifications may have been lost."""
        self._since += 1

    def has_ready(self, partition: Partition) -> None:
        """*partition* has ready jobs, or may have."""
        if not self.ready.add(partition):
            self.doubt()

    def has_sooner(self, tag: bytes) -> None:
        """In a partition a job is due earlier than known."""
        self._sooner.add(tag)

    # ---- what is relied on

    def relies(self, roster: Roster) -> bool:
        """Whether partitions of the roster without a hint need not be asked."""
        self._after_fork()
        if len(roster.partitions) <= FEW or self._calls.clock is not None:  # which may jump, and is no server's
            return False
        if roster.since != self._since:
            roster.forget(self._since)
        return any(one.names >= roster.names and one.is_active() for one in tuple(self._listeners))

    def gave(self, count: int, share: int) -> None:
        """
        A partition has given so many of the jobs that were asked of it.

        What is asked of each follows that: so few partitions are asked that each has what its script is worth.
        """
        wanted = 2.0 * share if count == share else 1.5 * count
        self.worth = min(max(self.worth + (wanted - self.worth) / 16, LEAST_WORTH), MOST_WORTH)

    def asked_for_jobs(self, roster: Roster, partition: Partition) -> None:
        """*partition* is asked now: its answer replaces what was known of it."""
        roster.unglanced.add(partition.tag)
        self.ready.take_off(partition)

    def answered(self, roster: Roster, partition: Partition, *, more: bool) -> None:
        """*partition* has answered whether it has more ready jobs."""
        roster.unglanced.discard(partition.tag)
        if more:
            self.has_ready(partition)

    def failed(self, roster: Roster, partition: Partition) -> None:
        """*partition* has not answered."""
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
        """The next job of *partition* is due in *wait_us* microseconds."""
        roster.unlooked.discard(partition.tag)
        if wait_us == NEVER:
            self._due.pop(partition.tag, None)
        else:
            self._due[partition.tag] = time.monotonic() + wait_us / 1_000_000

    def not_promoted(self, roster: Roster, partition: Partition) -> None:
        """*partition* has not answered."""
        roster.unlooked.add(partition.tag)

    def next_due(self, roster: Roster) -> float | None:
        """Seconds until the next job is due, as far as is known."""
        if any(tag in roster.place for tag in tuple(self._sooner)):
            return 0.0
        first = min((due for tag, due in list(self._due.items()) if tag in roster.place), default=None)
        return None if first is None else max(0.0, first - time.monotonic())

    # ---- what has expired

    def note_expiry(self, partition: Partition, wait_us: int) -> None:
        """The first lease of *partition* expires in *wait_us* microseconds, as a look has found."""
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
        if self._pid != os.getpid():  # the parent receives its notifications, not this process
            self._pid = os.getpid()
            self._forget()
