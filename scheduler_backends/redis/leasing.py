"""Lease: round after round, until what was asked for is there or nothing more is."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from scheduler.leases import Lease
from scheduler_backends.redis.calls import Calls
from scheduler_backends.redis.lease_call import LeaseCall
from scheduler_backends.redis.marks import Marks
from scheduler_backends.redis.quarantine import Quarantine
from scheduler_backends.redis.serving import Serving
from scheduler_backends.redis.settling import Settling
from scheduler_backends.redis.tokens import is_first_use
from scheduler_backends.redis.watching import Watch

ROUNDS = 4  # of asking on, while partitions have more and more is wanted


class Leasing:
    """Leases jobs. Any thread."""

    def __init__(  # noqa: PLR0917 - one caller, which makes all of these
        self, calls: Calls, serving: Serving, settling: Settling, quarantine: Quarantine, watch: Watch, marks: Marks
    ) -> None:
        self._calls = calls
        self._serving = serving
        self._settling = settling
        self._quarantine = quarantine
        self._watch = watch
        self._marks = marks
        self._turns = itertools.count()

    def lease(self, queues: Sequence[str], token: str, worker_id: str, duration: float, limit: int) -> list[Lease]:
        """As `Backend.lease`, its arguments checked."""
        looks = not is_first_use(token)
        call = LeaseCall(
            *(self._calls, self._quarantine, self._watch, self._marks, next(self._turns)),
            *(token, worker_id, duration, limit),
            looks=looks,
        )
        call.take(self._serving.sweep(queues, call.first_round))
        rounds = 0
        # An empty answer must mean that nothing is there: asked on until that is certain. It ends, since a partition is
        # asked again only while it says that it has more, and then gives some, or sets aside what is damaged.
        while (rounds < ROUNDS or not call.leases) and (calls := call.further_round()):
            call.take(list(zip(calls, self._calls.run(calls), strict=True)))
            rounds += 1
        if not call.leases and call.failure is not None:
            raise call.failure
        if call.surplus:
            # The layout has changed in between, or a repeat was not known for one.
            self._settling.release(call.surplus)
        return call.leases
