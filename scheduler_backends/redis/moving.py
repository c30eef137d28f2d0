"""The moves that look for their jobs themselves: promote, recover, trim, and mending what was damaged."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

from scheduler.jobs import LEASE_EXPIRED
from scheduler.leases import Promotion, Recovery
from scheduler.queues import Retention
from scheduler_backends.redis.calls import Call, Calls, what_succeeded
from scheduler_backends.redis.codec import error_text
from scheduler_backends.redis.errors import log
from scheduler_backends.redis.keys import Keys, Partition
from scheduler_backends.redis.layouts import Layouts
from scheduler_backends.redis.scripts import (
    MEND,
    PROMOTE_DUE,
    RECOVER_EXPIRED,
    TRIM,
)

SHARE = 1_000  # jobs in one script; Lua's unpack ends near 8,000 values
SEARCHED = 200_000  # jobs in a partition that one script may look at, when damage is found
LAPS = 100  # of asking partitions that have more, while the limit is not reached


class Moved(NamedTuple):
    """What one partition answered: how many it moved, and whether it has more."""

    moved: int
    more: bool


class Moving:
    """Moves jobs within their partitions. Any thread."""

    def __init__(
        self,
        calls: Calls,
        layouts: Layouts,
        keys: Keys,
        retention: Retention,
        has_ready: Callable[[Partition], None],
    ) -> None:
        self._calls = calls
        self._layouts = layouts
        self._has_ready = has_ready
        self._keys = keys
        self._retention = retention
        self._turn = itertools.count()  # which partitions are given one more where a limit cannot be split evenly

    def promote(self, queues: Sequence[str], limit: int) -> Promotion:
        """As `Backend.promote_due`."""
        waits: dict[Partition, int] = {}

        def take(partition: Partition, answer: object) -> Moved:
            moved, next_us, more = cast("tuple[int, int, int]", answer)
            waits[partition] = next_us
            if moved:
                self._has_ready(partition)
            return Moved(moved, more > 0)

        moved = self._spread(
            queues,
            limit,
            lambda partition, share: Call(
                PROMOTE_DUE, partition, (self._calls.now(), self._keys.channel(partition.queue), share)
            ),
            take,
        )
        return Promotion(moved=moved, next_due=_soonest(waits))

    def recover(self, queues: Sequence[str], limit: int) -> Recovery:
        """As `Backend.recover_expired`."""
        counts = [0, 0]
        waits: dict[Partition, int] = {}
        kept = int(self._retention.dead > 0)

        def take(partition: Partition, answer: object) -> Moved:
            ready, dead, next_us, lost = cast("tuple[int, int, int, list[bytes]]", answer)
            counts[0] += ready
            counts[1] += dead
            waits[partition] = next_us
            if lost:
                log.warning("%r: %d leased jobs have no record any more, %r the first", partition, len(lost), lost[0])
            return Moved(ready + dead, next_us == 0)

        self._spread(
            queues,
            limit,
            lambda partition, share: Call(
                RECOVER_EXPIRED,
                partition,
                (self._calls.now(), self._keys.channel(partition.queue), share, error_text(LEASE_EXPIRED), kept),
            ),
            take,
        )
        return Recovery(ready=counts[0], dead=counts[1], next_expiry=_soonest(waits))

    def trim(self, queues: Sequence[str], limit: int) -> int:
        """As `Backend.trim`."""
        kept = self._retention
        spans = tuple(round(seconds * 1000) for seconds in (kept.succeeded, kept.dead, kept.cancelled))

        def take(_: Partition, answer: object) -> Moved:
            gone, more = cast("tuple[int, int]", answer)
            return Moved(gone, more > 0)

        self._mend(queues)
        return self._spread(
            queues, limit, lambda partition, share: Call(TRIM, partition, (self._calls.now(), share, *spans)), take
        )

    def _mend(self, queues: Sequence[str]) -> None:
        """Find what damage by hand has made unfindable. Here, since a worker trims now and then and not often."""
        answers = self._layouts.sweep(
            queues,
            lambda partitions: [
                Call(MEND, one, (self._calls.now(), self._keys.channel(one.queue), SEARCHED)) for one in partitions
            ],
        )
        for (call, _), answer in zip(answers, what_succeeded([one for _, one in answers]), strict=True):
            if answer is not None and any(found := cast("tuple[int, int, int]", answer)):
                log.warning(
                    "%r was damaged: %d leases had no expiry and expire now, %d jobs were in no index and are ready "
                    "again, %d jobs are in no index and too many others are there to search for them",
                    call.partition,
                    *found,
                )

    def _spread(
        self,
        queues: Sequence[str],
        limit: int,
        ask: Callable[[Partition, int], Call],
        take: Callable[[Partition, object], Moved],
    ) -> int:
        """At most *limit* moves over all partitions: even shares first, then what is left to those that have more."""
        left = limit
        busy: list[Partition] = []

        def share_out(partitions: Sequence[Partition]) -> list[Call]:
            each, rest = divmod(left, len(partitions))
            turn = next(self._turn)
            return [
                ask(partition, min(each + ((place - turn) % len(partitions) < rest), SHARE))
                for place, partition in enumerate(partitions)
            ]

        answers = self._layouts.sweep(queues, share_out)
        for _ in range(LAPS):
            busy = []
            usable = what_succeeded([answer for _, answer in answers]) if answers else []
            for (call, _), answer in zip(answers, usable, strict=True):
                if answer is not None:
                    moved, more = take(call.partition, answer)
                    left -= moved
                    if more:
                        busy.append(call.partition)
            if left <= 0 or not busy:
                break
            busy = busy[:left]  # each is asked for one at least
            calls = share_out(busy)
            answers = list(zip(calls, self._calls.run(calls), strict=True))
        return limit - left


def _soonest(waits: dict[Partition, int]) -> float | None:
    """Seconds until the first of these moments; below 0 stands for none."""
    return min((us / 1_000_000 for us in waits.values() if us >= 0), default=None)
