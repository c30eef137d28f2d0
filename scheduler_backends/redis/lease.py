"""Leasing jobs, and renewing leases."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scheduler.leases import Lease
from scheduler_backends.redis.lease_call import LeaseCall
from scheduler_backends.redis.scripts import RENEW
from scheduler_backends.redis.settle import call_on_leases
from scheduler_backends.redis.store import Store
from scheduler_backends.redis.tokens import is_first_use


class LeaseHooks:
    """The hooks that give leases and keep them."""

    _store: Store

    def _lease(
        self, queues: Sequence[str], *, token: str, worker_id: str, duration: float, limit: int
    ) -> Sequence[Lease]:
        """At most 1,000 jobs a partition."""
        is_repeat = not is_first_use(token)
        return LeaseCall(self._store, token, worker_id, duration, limit, is_repeat=is_repeat).run(queues)

    def _renew(self, leases: Sequence[Lease], duration: float) -> Sequence[Lease]:
        return call_on_leases(
            self._store,
            RENEW,
            leases,
            lambda group, held: (group, len(held), *[lease.job.id.encode() for lease in held]),
            second=math.ceil(duration * 1000),
        )
