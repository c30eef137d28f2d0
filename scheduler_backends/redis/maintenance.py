"""Maintenance: promote due jobs, recover expired leases, trim finished jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from scheduler.errors import BackendError, BackendUnavailable
from scheduler.jobs import LEASE_EXPIRED
from scheduler.leases import Promotion, Recovery
from scheduler_backends.redis.calls import Call, successful_answers
from scheduler_backends.redis.codec import error_text
from scheduler_backends.redis.errors import log
from scheduler_backends.redis.keys import Partition
from scheduler_backends.redis.marks import PAGE
from scheduler_backends.redis.records import TAGS
from scheduler_backends.redis.repair import repair_some
from scheduler_backends.redis.scripts import LOOK, PROMOTE_DUE, RECOVER_EXPIRED, SLICE, TRIM
from scheduler_backends.redis.served import FEW, Served
from scheduler_backends.redis.store import Store

TRIMMED = 64  # partitions that one call trims and repairs, in rotation
EXACT = 128  # partitions: up to this number, a recovery asks all, so it knows exactly when the next lease expires
LAPS = 100  # maximum number of further rounds to partitions that have more, while the limit is not reached


Moved = tuple[int, bool]  # the answer of one partition: how many jobs it moved, and whether it has more


class MaintenanceHooks:
    """Hooks of promote, recover and trim."""

    _store: Store

    def _promote_due(self, queues: Sequence[str], limit: int) -> Promotion:
        """
        Promote due jobs.

        If notifications can be relied on, only partitions with jobs known to be due are asked, and some in rotation.
        """
        store = self._store
        served = store.serving.of(queues)
        relies = store.serving.relies_on_notifications(served)

        def take(call: Call, answer: object) -> Moved:
            partition = call.partition
            if call.script is LOOK:
                next_us, is_ready, expiry_us = cast("tuple[int, int, int]", answer)
                moved, more = 0, int(next_us == 0)
                served.note_expiry(partition, expiry_us)
            else:
                moved, next_us, more = cast("tuple[int, int, int]", answer)
                is_ready = moved
            if is_ready:
                served.note_ready(partition)
            served.note_due(partition, next_us)
            return moved, more > 0

        moved = self._spread(
            served,
            limit,
            served.to_promote() if relies else served.asked_for_due(served.partitions),
            lambda partition, share: Call(PROMOTE_DUE, partition, (store.calls.now(), partition.channel, share)),
            take,
            also=[Call(LOOK, one, (store.calls.now(),)) for one in served.to_look_at()] if relies else (),
        )
        return Promotion(moved=moved, next_due=served.next_due())

    def _recover_expired(self, queues: Sequence[str], limit: int) -> Recovery:
        """
        Recover expired leases, all jobs of a lease call together.

        Of more than `EXACT` partitions, only some are asked: those whose mark has passed, then others in rotation.
        """
        store = self._store
        served = store.serving.of(queues)
        counts = [0, 0]
        waits: dict[Partition, int] = {}
        kept = int(store.retention.dead > 0)
        marks: dict[Partition, bytes] = {}
        chosen: Sequence[Partition] = served.partitions
        if len(chosen) > FEW:
            store.marks.tidy()
            marks = store.marks.passed(served)
        if len(chosen) > EXACT:
            others = (*served.expired(SLICE), *served.in_turn("recover", FEW))
            chosen = list(dict.fromkeys((*marks, *others)))[: max(limit, FEW)]

        def take(call: Call, answer: object) -> Moved:
            ready, dead, next_us, lost = cast("tuple[int, int, int, list[bytes]]", answer)
            counts[0] += ready
            counts[1] += dead
            waits[call.partition] = next_us
            if lost:
                message = "%r: the records of %d leased jobs are gone, the first is %r"
                log.warning(message, call.partition, len(lost), lost[0])
            return ready + dead, next_us == 0

        self._spread(
            served,
            limit,
            chosen,
            lambda partition, share: Call(
                RECOVER_EXPIRED,
                partition,
                (store.calls.now(), partition.channel, share, error_text(LEASE_EXPIRED), kept, TAGS),
            ),
            take,
        )
        is_settled = store.marks.settle(marks, waits)
        has_more = is_settled and (len(marks) >= PAGE or any(one not in waits for one in marks))
        has_more |= store.marks.passed_over > 0  # leases of these queues may have marks behind those of others
        soonest = min((us / 1_000_000 for us in waits.values() if us >= 0), default=None)
        return Recovery(ready=counts[0], dead=counts[1], next_expiry=0.0 if has_more else soonest)

    def _trim(self, queues: Sequence[str], limit: int) -> int:
        """Trim and repair up to `TRIMMED` partitions, in rotation."""
        store = self._store
        served = store.serving.of(queues)
        kept = store.retention
        spans = tuple(round(seconds * 1000) for seconds in (kept.succeeded, kept.dead, kept.cancelled))
        some = served.in_turn("trim", TRIMMED)
        repair_some(store, some)

        def take(_: Call, answer: object) -> Moved:
            gone, more = cast("tuple[int, int]", answer)
            return gone, more > 0

        return self._spread(
            served,
            limit,
            some,
            lambda partition, share: Call(TRIM, partition, (store.calls.now(), share, *spans)),
            take,
        )

    def _spread(
        self,
        served: Served,
        limit: int,
        chosen: Sequence[Partition],
        ask: Callable[[Partition, int], Call],
        take: Callable[[Call, object], Moved],
        *,
        also: Sequence[Call] = (),
    ) -> int:
        """
        Move at most *limit* jobs in some partitions, and return how many were moved.

        Args:
            served: The queues that are served.
            limit: First split evenly over the partitions. The rest is then asked of those that have more.
            chosen: The partitions to ask. Partitions found to be new are asked as well.
            ask: Returns the call that asks a partition for a number of moves.
            take: Reads the answer of a call.
            also: Further calls of the first round, which move nothing.

        Raises:
            BackendError: The first error, if all calls of a round failed. Otherwise, errors are logged.
        """
        store = self._store
        left = limit

        def shares(partitions: Sequence[Partition]) -> list[Call]:
            each, rest = divmod(left, len(partitions) or 1)
            turn = next(store.turns)
            return [
                ask(partition, min(each + ((place - turn) % len(partitions) < rest), SLICE))
                for place, partition in enumerate(partitions)
            ]

        answers = store.serving.sweep(served, lambda: [*shares(chosen), *also], shares)
        for _ in range(LAPS):
            busy: list[Partition] = []
            for call, answer in answers:
                if isinstance(answer, BackendUnavailable):
                    store.serving.note_outage()
                if not isinstance(answer, BackendError):
                    moved, more = take(call, answer)
                    left -= moved
                    if more:
                        busy.append(call.partition)
            if answers:
                successful_answers([answer for _, answer in answers])
            if left <= 0 or not busy:
                break
            calls = shares(busy[:left])  # a share is at least one
            answers = list(zip(calls, store.calls.run(calls), strict=True))
        return limit - left
