"""Leasing jobs, and renewing leases."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scheduler.leases import Lease
from scheduler_backends.redis.held import call_on_leases, release
from scheduler_backends.redis.lease_call import LeaseCall
from scheduler_backends.redis.scripts import RENEW
from scheduler_backends.redis.store import Store
from scheduler_backends.redis.tokens import is_first_use

ROUNDS = 4  # of asking on, while partitions have more and more is wanted


class LeaseHooks:
    """The hooks that give leases and keep them."""

    _store: Store

    def _lease(
        self, queues: Sequence[str], *, token: str, worker_id: str, duration: float, limit: int
    ) -> Sequence[Lease]:
        """At most 1,000 jobs a partition."""
        store = self._store
        call = LeaseCall(store, token, worker_id, duration, limit, looks=not is_first_use(token))
        call.take(store.serving.sweep(queues, call.first_round))
        rounds = 0
        # An empty answer must mean that nothing is there: asked on until that is certain. It ends, since a partition is
        # asked again only while it says that it has more, and then gives some, or sets aside what is damaged.
        while (rounds < ROUNDS or not call.leases) and (calls := call.further_round()):
            call.take(list(zip(calls, store.calls.run(calls), strict=True)))
            rounds += 1
        if not call.leases and call.failure is not None:
            raise call.failure
        if call.surplus:
            # The layout has changed in between, or a repeat was not known for one.
            release(store, call.surplus)
        return call.leases

    def _renew(self, leases: Sequence[Lease], duration: float) -> Sequence[Lease]:
        store = self._store
        milliseconds = math.ceil(duration * 1000)
        return call_on_leases(
            store,
            RENEW,
            leases,
            lambda _: (store.calls.now(), milliseconds),
            lambda group, held: (group, len(held), *[lease.job.id.encode() for lease in held]),
        )
