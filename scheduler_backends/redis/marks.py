"""Marks of leases: which partitions may have expired ones, without asking each partition."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, cast

from scheduler.errors import BackendError
from scheduler_backends.redis.calls import SHARED_SILENCE, Call, Calls
from scheduler_backends.redis.client.node import Word
from scheduler_backends.redis.errors import log, should_log
from scheduler_backends.redis.keys import Keys, Partition
from scheduler_backends.redis.rosters import Roster
from scheduler_backends.redis.scripts import MARK, MARKED, UNMARK, UNMARK_OWN

PAGE = 1_000  # marks read at once
PAGES = 10  # read in one call
GRACE = 60_000  # milliseconds for which a partition without leases keeps a mark: longer than any lease call takes
FRESH = 5.0  # seconds for which a mark need not be written again, less where leases are short
REMEMBERED = 16_384  # partitions whose last mark is remembered


class Mark(NamedTuple):
    """That leases of a partition may have expired."""

    partition: Partition
    score: bytes


class Marks:
    """
    The sorted set `leases`: partition → a moment not after its first lease expires.

    A hint: leases whose mark was lost are found by the round that looks at all partitions in turn. Any thread.
    """

    def __init__(self, calls: Calls, keys: Keys) -> None:
        self._calls = calls
        self._shared = keys.shared
        self._fresh: dict[bytes, float] = {}  # until when a mark of ours is good enough, by time.monotonic()
        self._pid = os.getpid()
        self._lock = threading.RLock()  # guards the two below; a forked child makes its own; re-entrant for finalisers
        self._own: dict[bytes, bytes] = {}  # partition -> its mark, if only this process has written it
        self._held: dict[bytes, int] = {}  # how many of the leases taken here in a partition were not given up yet
        self._owed: set[bytes] = set()  # partitions that have leases without a mark, since the server was away
        self._silent_until = 0.0  # by time.monotonic()
        self._passed_over = 0  # marks of partitions that others serve

    def before(
        self, partitions: Sequence[Partition], ahead: Callable[[], Sequence[Partition]], milliseconds: int
    ) -> list[Call]:
        """
        Return the calls to make before leases are taken from *partitions*, so that no lease is without a mark.

        None where they are marked already; otherwise the partitions of *ahead* are marked in the same call. In a
        cluster, calls are not executed in their order: there the call is made here.
        """
        now = time.monotonic()
        if now < self._silent_until:
            if len(self._owed) < REMEMBERED:
                self._owed.update(one.tag for one in partitions)
            return []
        if self._calls.clock is None:
            partitions = [one for one in partitions if self._fresh.get(one.tag, 0.0) <= now]
        if not partitions:
            return []
        partitions = list(
            dict.fromkeys((*partitions, *(one for one in ahead() if self._fresh.get(one.tag, 0.0) <= now)))
        )
        owed = tuple(self._owed)[:PAGE]
        self._owed.difference_update(owed)
        if len(self._fresh) > REMEMBERED:
            self._fresh.clear()
        until = now + min(FRESH, milliseconds / 4_000)
        for partition in partitions:
            self._fresh[partition.tag] = until
        call = Call(MARK, self._shared, (self._calls.now(), milliseconds, *(one.tag for one in partitions), *owed))
        if self._calls.in_order:
            return [call]
        self.take(call, self._calls.run([call])[0])
        return []

    def take(self, call: Call, answer: object) -> None:
        """Note the answer of a call that `before` has returned."""
        tags = cast("tuple[bytes, ...]", call.args[2:])
        with self._guard():
            for tag, mark in zip(
                tags, () if isinstance(answer, BackendError) else cast("list[bytes]", answer), strict=False
            ):
                if mark and len(self._own) < REMEMBERED:
                    self._own[tag] = mark
                else:
                    self._own.pop(tag, None)
        if isinstance(answer, BackendError):
            self._silent_until = time.monotonic() + SHARED_SILENCE
            for tag in tags:
                self._fresh.pop(tag, None)
            if len(self._owed) < REMEMBERED:
                self._owed.update(tags)
            _warn(answer)

    def taken(self, partition: Partition, count: int) -> None:
        """*count* leases were taken in a partition."""
        with self._guard():
            if partition.tag in self._own:
                self._held[partition.tag] = self._held.get(partition.tag, 0) + count

    def in_doubt(self, partition: Partition) -> None:
        """Leases may have been taken there that no reply has reported."""
        with self._guard():
            self._own.pop(partition.tag, None)

    def given_up(self, partition: Partition, count: int) -> None:
        """*count* leases of a partition have ended."""
        with self._guard():
            left = self._held.get(partition.tag, 0) - count
            if left > 0:
                self._held[partition.tag] = left
            else:
                self._held.pop(partition.tag, None)

    def tidy(self) -> None:
        """Remove the marks that only this process has written and under which it holds nothing any more."""
        now = time.monotonic()
        with self._guard():
            idle = [tag for tag in self._own if tag not in self._held and self._fresh.get(tag, 0.0) <= now]
            words = [(tag, self._own.pop(tag)) for tag in idle]
            for tag in idle:
                self._fresh.pop(tag, None)
        for start in range(0, len(words), PAGE):
            args = tuple(word for pair in words[start : start + PAGE] for word in pair)
            (answer,) = self._calls.run([Call(UNMARK_OWN, self._shared, args)])
            if isinstance(answer, BackendError):
                _warn(answer)
                return

    def _guard(self) -> threading.RLock:
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._lock = threading.RLock()
            self._own, self._held = {}, {}
        return self._lock

    def passed(self, roster: Roster) -> list[Mark]:
        """Partitions of *roster* whose leases may have expired, at most a page of them, the earliest first."""
        found: list[Mark] = []
        for _ in range(PAGES):
            (answer,) = self._calls.run([Call(MARKED, self._shared, (self._calls.now(), self._passed_over, PAGE))])
            if isinstance(answer, BackendError):
                _warn(answer)
                break
            flat = cast("list[bytes]", answer)
            mine = [
                Mark(roster.partitions[place], score)
                for tag, score in zip(flat[::2], flat[1::2], strict=True)
                if (place := roster.place.get(tag)) is not None
            ]
            found += mine
            for one in mine:
                self._fresh.pop(one.partition.tag, None)
            if len(flat) < 2 * PAGE:
                self._passed_over = 0
                break
            self._passed_over += PAGE
            if len(found) >= PAGE:
                self._passed_over = 0
                break
        return found[:PAGE]

    def settle(self, marks: Sequence[Mark], waits: Mapping[bytes, int]) -> bool:
        """
        Write new marks of partitions that were asked. Returns whether the store accepted them.

        waits: in how many microseconds the first lease of each partition expires; below 0 = it has none.
        """
        words: list[Word] = []
        for partition, score in marks:
            if partition.tag in waits:
                words += (partition.tag, score, waits[partition.tag])
        if not words:
            return False
        (answer,) = self._calls.run([Call(UNMARK, self._shared, (self._calls.now(), GRACE, *words))])
        if isinstance(answer, BackendError):
            _warn(answer)
            return False
        return True


def _warn(error: BackendError) -> None:
    if should_log(str(error)):
        log.warning("the marks of leases cannot be kept: %s", error)
