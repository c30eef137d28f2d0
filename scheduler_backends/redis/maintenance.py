"""The moves that find their jobs by themselves: promote, recover and trim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from scheduler.errors import BackendError
from scheduler.jobs import LEASE_EXPIRED
from scheduler.leases import Promotion, Recovery
from scheduler_backends.redis.calls import Call
from scheduler_backends.redis.codec import error_text
from scheduler_backends.redis.errors import log
from scheduler_backends.redis.keys import Partition
from scheduler_backends.redis.marks import PAGE, Mark
from scheduler_backends.redis.records import TAGS
from scheduler_backends.redis.repair import repair_some
from scheduler_backends.redis.rosters import FEW, Roster
from scheduler_backends.redis.scripts import LOOK, PROMOTE_DUE, RECOVER_EXPIRED, SLICE, TRIM
from scheduler_backends.redis.spreading import Moved, spread
from scheduler_backends.redis.store import Store

TRIMMED = 64  # partitions that one call trims and mends, in turn
EXACT = 128  # partitions: up to so many, a recovery asks all, and so finds when the next lease expires


class MaintenanceHooks:
    """The hooks of the moves that find their jobs by themselves."""

    _store: Store

    def _promote_due(self, queues: Sequence[str], limit: int) -> Promotion:
        """Where notifications are received, partitions with due jobs are asked, and some others in turn."""
        store = self._store
        waits: dict[bytes, int] = {}
        relied_on: list[Roster] = []

        def choose(roster: Roster, partitions: Sequence[Partition]) -> Sequence[Partition]:
            if not store.watch.relies(roster):
                return partitions
            relied_on.append(roster)
            return store.watch.to_promote(roster)

        def looks() -> Sequence[Call]:
            return [
                Call(LOOK, one, (store.calls.now(),)) for roster in relied_on for one in store.watch.to_look_at(roster)
            ]

        def take(call: Call, answer: object) -> Moved:
            partition = call.partition
            if isinstance(answer, BackendError):
                for roster in relied_on:
                    store.watch.not_promoted(roster, partition)
                return Moved(0, more=False)
            if call.script is LOOK:
                next_us, is_ready, expiry_us = cast("tuple[int, int, int]", answer)
                moved, more = 0, int(next_us == 0)
                store.watch.note_expiry(partition, expiry_us)
            else:
                moved, next_us, more = cast("tuple[int, int, int]", answer)
                is_ready = moved
                waits[partition.tag] = next_us
            if is_ready:
                store.watch.has_ready(partition)
            for roster in relied_on:
                store.watch.note_due(roster, partition, next_us)
            return Moved(moved, more > 0)

        moved = spread(
            store,
            queues,
            limit,
            lambda partition, share: Call(PROMOTE_DUE, partition, (store.calls.now(), partition.channel, share)),
            take,
            choose=choose,
            also=looks,
        )
        if relied_on:
            return Promotion(moved=moved, next_due=store.watch.next_due(relied_on[0]))
        return Promotion(moved=moved, next_due=_soonest(waits))

    def _recover_expired(self, queues: Sequence[str], limit: int) -> Recovery:
        """Whole lease calls at a time. Of very many partitions some are asked, first those whose mark has passed."""
        store = self._store
        counts = [0, 0]
        waits: dict[bytes, int] = {}
        kept = int(store.retention.dead > 0)
        marks: list[Mark] = []

        def choose(roster: Roster, partitions: Sequence[Partition]) -> Sequence[Partition]:
            if len(roster.partitions) <= FEW:
                return partitions
            if not marks:
                store.marks.tidy()
                marks.extend(store.marks.passed(roster))
            if len(roster.partitions) <= EXACT:
                return partitions
            others = (*store.watch.expired(roster, SLICE), *roster.in_turn("recover", FEW))
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

        spread(
            store,
            queues,
            limit,
            lambda partition, share: Call(
                RECOVER_EXPIRED,
                partition,
                (store.calls.now(), partition.channel, share, error_text(LEASE_EXPIRED), kept, TAGS),
            ),
            take,
            choose=choose,
        )
        unseen = [one for one in marks if one.partition.tag not in waits]
        has_more = store.marks.settle(marks, waits) and (bool(unseen) or len(marks) == PAGE)
        return Recovery(ready=counts[0], dead=counts[1], next_expiry=0.0 if has_more else _soonest(waits))

    def _trim(self, queues: Sequence[str], limit: int) -> int:
        """Of very many partitions, some in turn."""
        store = self._store
        kept = store.retention
        spans = tuple(round(seconds * 1000) for seconds in (kept.succeeded, kept.dead, kept.cancelled))
        some: list[Partition] = []

        def choose(roster: Roster, partitions: Sequence[Partition]) -> Sequence[Partition]:
            return some if some and len(roster.partitions) > TRIMMED else partitions

        def take(_: Call, answer: object) -> Moved:
            if isinstance(answer, BackendError):
                return Moved(0, more=False)
            gone, more = cast("tuple[int, int]", answer)
            return Moved(gone, more > 0)

        some += repair_some(store, queues, TRIMMED)
        return spread(
            store,
            queues,
            limit,
            lambda partition, share: Call(TRIM, partition, (store.calls.now(), share, *spans)),
            take,
            choose=choose,
        )


def _soonest(waits: dict[bytes, int]) -> float | None:
    """Seconds until the first of these moments. Values below 0 mean none."""
    return min((us / 1_000_000 for us in waits.values() if us >= 0), default=None)
