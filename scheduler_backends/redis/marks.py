"""Lease marks: one shared sorted set that shows which partitions may have expired leases."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import cast

from scheduler.errors import BackendError
from scheduler_backends.redis.calls import SHARED_SILENCE, Call, Calls
from scheduler_backends.redis.client.node import Word
from scheduler_backends.redis.errors import log, should_log
from scheduler_backends.redis.keys import Keys, Partition
from scheduler_backends.redis.scripts import MARK, MARKED, UNMARK, UNMARK_OWN, Script
from scheduler_backends.redis.served import Served

PAGE = 1_000  # marks read at once
PAGES = 10  # the maximum read in one call
GRACE = 60_000  # milliseconds for which a partition without leases keeps a mark; no lease call takes longer
FRESH = 5.0  # seconds before a mark is written again; fewer if leases are short
REMEMBERED = 16_384  # partitions whose last mark is remembered


@dataclass(slots=True)
class _MarkState:
    """State of the mark of one partition, as written by this process."""

    fresh_until: float = 0.0  # when the mark must be written again, by time.monotonic()
    own: bytes = b""  # the mark, if only this process has written it
    held: int = 0  # leases taken by this process that have not ended


class Marks:
    """
    The sorted set `leases`, which maps a partition to a lower bound of its first lease expiry.

    Marks are hints: expired leases without a mark are found by the rotation over all partitions. Thread-safe.
    """

    def __init__(self, calls: Calls, keys: Keys) -> None:
        self._calls = calls
        self._shared = keys.shared
        self._lock = threading.RLock()  # guards `_written`; re-entrant for finalisers and signal handlers
        self._written: dict[bytes, _MarkState] = {}
        self._silent_until = 0.0  # no marks are written before, by time.monotonic()
        self.passed_over = 0  # marks already skipped, of partitions that only other workers serve; 0 = read to the end

    def before(
        self, partitions: Sequence[Partition], ahead: Callable[[], Sequence[Partition]], milliseconds: int
    ) -> list[Call]:
        """
        Return the calls that must precede lease calls on *partitions*, so that no lease is without a mark.

        The list is empty if all of them have fresh marks. In a cluster, calls are not executed in their order, so there
        this method makes the call itself.

        Args:
            partitions: The partitions to lease from.
            ahead: Returns partitions that are marked in the same call, since they will be asked soon.
            milliseconds: The duration of the leases.
        """
        now = time.monotonic()
        tags = [one.tag for one in partitions]
        if self._calls.clock is None:
            tags = self._stale(tags, now)
        if not tags or now < self._silent_until:
            return []
        tags = list(dict.fromkeys((*tags, *self._stale([one.tag for one in ahead()], now))))
        until = now + min(FRESH, milliseconds / 4_000)
        with self._lock:
            if len(self._written) > REMEMBERED:
                self._written.clear()
            for tag in tags:
                self._written.setdefault(tag, _MarkState()).fresh_until = until
        call = Call(MARK, self._shared, (self._calls.now(), milliseconds, *tags))
        if self._calls.in_order:
            return [call]
        self.take(call, self._calls.run([call])[0])
        return []

    def _stale(self, tags: Sequence[bytes], now: float) -> list[bytes]:
        return [tag for tag in tags if (one := self._written.get(tag)) is None or one.fresh_until <= now]

    def take(self, call: Call, answer: object) -> None:
        """Handle the answer of a call that `before` has returned."""
        tags = cast("tuple[bytes, ...]", call.args[2:])
        if isinstance(answer, BackendError):
            self._silent_until = time.monotonic() + SHARED_SILENCE
            with self._lock:
                for tag in tags:
                    self._written.pop(tag, None)
            _warn(answer)
            return
        for tag, mark in zip(tags, cast("list[bytes]", answer), strict=True):
            if (written := self._written.get(tag)) is not None:
                written.own = mark

    def taken(self, partition: Partition, count: int) -> None:
        """Note that *count* leases were taken in *partition*. A negative number = that many have ended."""
        with self._lock:
            written = self._written.get(partition.tag)
            if written is not None and written.own:
                written.held = max(0, written.held + count)

    def ended(self, partition: Partition, count: int) -> None:
        """Note that *count* leases of *partition* have ended."""
        self.taken(partition, -count)

    def note_lost_reply(self, partition: Partition) -> None:
        """Note that a lost reply may have reported leases in *partition*."""
        with self._lock:
            if (written := self._written.get(partition.tag)) is not None:
                written.own = b""

    def tidy(self) -> None:
        """Remove the marks that only this process has written, and whose leases have all ended."""
        now = time.monotonic()
        with self._lock:
            idle = [
                (tag, one.own)
                for tag, one in list(self._written.items())
                if one.own and not one.held and one.fresh_until <= now
            ]
            for tag, _ in idle:
                self._written.pop(tag, None)
        for start in range(0, len(idle), PAGE):
            if self._run(UNMARK_OWN, *chain.from_iterable(idle[start : start + PAGE])) is None:
                return

    def passed(self, served: Served) -> dict[Partition, bytes]:
        """Return partitions of *served* whose leases may have expired, with their marks; about a page."""
        found: dict[Partition, bytes] = {}
        for _ in range(PAGES):
            answer = self._run(MARKED, self._calls.now(), self.passed_over, PAGE)
            flat = cast("list[bytes]", answer or [])  # none where they cannot be read
            for tag, mark in zip(flat[::2], flat[1::2], strict=True):
                if (partition := served.by_tag.get(tag)) is not None:
                    found[partition] = mark
                    self._written.get(tag, _MarkState()).fresh_until = 0.0
            if len(flat) < 2 * PAGE or len(found) >= PAGE:
                self.passed_over = 0
                break
            self.passed_over += PAGE
        return found

    def settle(self, marks: Mapping[Partition, bytes], waits: Mapping[Partition, int]) -> bool:
        """
        Replace the marks of partitions that were recovered, and return whether that succeeded.

        Args:
            marks: The marks as they were read.
            waits: For each recovered partition, microseconds until its first lease expires. Negative = no leases.
        """
        words: list[Word] = []
        for partition, mark in marks.items():
            if partition in waits:
                words += (partition.tag, mark, waits[partition])
        return bool(words) and self._run(UNMARK, self._calls.now(), GRACE, *words) is not None

    def _run(self, script: Script, *args: Word) -> object:
        """Return the answer of a script on the marks. If it fails, log the error and return None."""
        (answer,) = self._calls.run([Call(script, self._shared, args)])
        if isinstance(answer, BackendError):
            _warn(answer)
            return None
        return answer


def _warn(error: BackendError) -> None:
    if should_log(str(error)):
        log.warning("lease marks could not be read or written: %s", error)
