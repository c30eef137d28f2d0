"""The moves that look for their jobs themselves: promote, recover and trim."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import cast

from scheduler.errors import BackendError
from scheduler.jobs import LEASE_EXPIRED
from scheduler.leases import Promotion, Recovery
from scheduler.queues import Retention
from scheduler_backends.redis.calls import Call, Calls
from scheduler_backends.redis.codec import error_text
from scheduler_backends.redis.errors import log
from scheduler_backends.redis.keys import Keys, Partition
from scheduler_backends.redis.marks import PAGE, Mark, Marks
from scheduler_backends.redis.repair import Repair
from scheduler_backends.redis.rosters import FEW, Roster
from scheduler_backends.redis.scripts import (
    LOOK,
    PROMOTE_DUE,
    RECOVER_EXPIRED,
    TRIM,
)
from scheduler_backends.redis.serving import Serving
from scheduler_backends.redis.spreading import SHARE, Moved, Spreading
from scheduler_backends.redis.watching import Watch

TRIMMED = 64  # partitions that one call trims and mends, in turn
EXACT = 128  # partitions that a recovery asks all, so that it can say when the next lease expires
LOOK_EVERY = 0.5  # seconds between two steps of the slow round


class Maintenance:
    """Moves jobs within their partitions. Any thread."""

    def __init__(  # noqa: PLR0917 - one caller, which makes all of these
        self,
        calls: Calls,
        serving: Serving,
        keys: Keys,
        retention: Retention,
        watch: Watch,
        marks: Marks,
    ) -> None:
        self._calls = calls
        self._serving = serving
        self._watch = watch
        self._marks = marks
        self._spreading = Spreading(calls, serving, watch)
        self._repair = Repair(calls, serving, keys)
        self._keys = keys
        self._retention = retention
        self._looked_at = -LOOK_EVERY  # when the slow round went on last, by time.monotonic()

    def promote(self, queues: Sequence[str], limit: int) -> Promotion:
        """As `Backend.promote_due`; where the news are heard, those with due jobs are asked, and some in turn."""
        waits: dict[bytes, int] = {}
        relied_on: list[Roster] = []

        def choose(roster: Roster, partitions: Sequence[Partition]) -> Sequence[Partition]:
            if not self._watch.relies(roster):
                return partitions
            relied_on.append(roster)
            return self._watch.to_promote(roster)

        def looks() -> Sequence[Call]:
            return [Call(LOOK, one, (self._calls.now(),)) for roster in relied_on for one in self._to_look_at(roster)]

        def take(call: Call, answer: object) -> Moved:
            partition = call.partition
            if isinstance(answer, BackendError):
                for roster in relied_on:
                    self._watch.not_promoted(roster, partition)
                return Moved(0, more=False)
            if call.script is LOOK:
                next_us, is_ready, expiry_us = cast("tuple[int, int, int]", answer)
                moved, more = 0, int(next_us == 0)
                self._watch.note_expiry(partition, expiry_us)
            else:
                moved, next_us, more = cast("tuple[int, int, int]", answer)
                is_ready = moved
                waits[partition.tag] = next_us
            if is_ready:
                self._watch.has_ready(partition.tag)
            for roster in relied_on:
                self._watch.note_due(roster, partition, next_us)
            return Moved(moved, more > 0)

        moved = self._spreading.spread(
            queues,
            limit,
            lambda partition, share: Call(
                PROMOTE_DUE, partition, (self._calls.now(), self._keys.channel(partition.queue), share)
            ),
            take,
            choose=choose,
            also=looks,
        )
        if relied_on:
            return Promotion(moved=moved, next_due=self._watch.next_due(relied_on[0]))
        return Promotion(moved=moved, next_due=_soonest(waits))

    def _to_look_at(self, roster: Roster) -> list[Partition]:
        """Partitions of which nothing is known, and some in turn whose news may have been lost."""
        unknown = roster.those(roster.unlooked)
        now = time.monotonic()
        if now - self._looked_at < LOOK_EVERY:
            return unknown
        self._looked_at = now
        return list(dict.fromkeys((*unknown, *roster.in_turn("look", FEW))))

    def recover(self, queues: Sequence[str], limit: int) -> Recovery:
        """As `Backend.recover_expired`; of very many partitions, some are asked: those whose mark has passed first."""
        counts = [0, 0]
        waits: dict[bytes, int] = {}
        kept = int(self._retention.dead > 0)
        marks: list[Mark] = []

        def choose(roster: Roster, partitions: Sequence[Partition]) -> Sequence[Partition]:
            if len(roster.partitions) <= FEW:
                return partitions
            if not marks:
                self._marks.tidy()
                marks.extend(self._marks.passed(roster))
            if len(roster.partitions) <= EXACT:
                return partitions
            others = (*self._watch.expired(roster, SHARE), *roster.in_turn("recover", FEW))
            return list(dict.fromkeys((*(one.partition for one in marks), *others)))[: max(limit, FEW)]

        def take(call: Call, answer: object) -> Moved:
            if isinstance(answer, BackendError):
                return Moved(0, more=False)
            ready, dead, next_us, lost = cast("tuple[int, int, int, list[bytes]]", answer)
            counts[0] += ready
            counts[1] += dead
            waits[call.partition.tag] = next_us
            if lost:
                message = "%r: %d leased jobs have no record any more, %r the first"
                log.warning(message, call.partition, len(lost), lost[0])
            return Moved(ready + dead, next_us == 0)

        self._spreading.spread(
            queues,
            limit,
            lambda partition, share: Call(
                RECOVER_EXPIRED,
                partition,
                (self._calls.now(), self._keys.channel(partition.queue), share, error_text(LEASE_EXPIRED), kept),
            ),
            take,
            choose=choose,
        )
        unseen = [one for one in marks if one.partition.tag not in waits]
        has_more = self._marks.settle(marks, waits) and (bool(unseen) or len(marks) == PAGE)
        return Recovery(ready=counts[0], dead=counts[1], next_expiry=0.0 if has_more else _soonest(waits))

    def trim(self, queues: Sequence[str], limit: int) -> int:
        """As `Backend.trim`; of very many partitions, some in turn."""
        kept = self._retention
        spans = tuple(round(seconds * 1000) for seconds in (kept.succeeded, kept.dead, kept.cancelled))
        some: list[Partition] = []

        def choose(roster: Roster, partitions: Sequence[Partition]) -> Sequence[Partition]:
            return some if some and len(roster.partitions) > TRIMMED else partitions

        def take(_: Call, answer: object) -> Moved:
            if isinstance(answer, BackendError):
                return Moved(0, more=False)
            gone, more = cast("tuple[int, int]", answer)
            return Moved(gone, more > 0)

        some += self._repair.repair(queues, TRIMMED)
        return self._spreading.spread(
            queues,
            limit,
            lambda partition, share: Call(TRIM, partition, (self._calls.now(), share, *spans)),
            take,
            choose=choose,
        )


def _soonest(waits: dict[bytes, int]) -> float | None:
    """Seconds until the first of these moments; below 0 stands for none."""
    return min((us / 1_000_000 for us in waits.values() if us >= 0), default=None)
