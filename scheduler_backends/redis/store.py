"""State that the hook modules of one backend share."""

from __future__ import annotations

import itertools

from scheduler.clock import Clock
from scheduler.processes import PerProcess
from scheduler.queues import Retention
from scheduler.waiting import WaiterRegistry
from scheduler_backends.redis.calls import Calls
from scheduler_backends.redis.client.cluster import Router
from scheduler_backends.redis.config import RedisConfig
from scheduler_backends.redis.keys import Keys
from scheduler_backends.redis.layouts import Layouts
from scheduler_backends.redis.marks import Marks
from scheduler_backends.redis.serving import Serving


class Store:
    """The connections and caches of one backend. Thread-safe."""

    def __init__(self, router: Router, config: RedisConfig, retention: Retention, clock: Clock | None) -> None:
        self.config = config
        self.retention = retention
        self.keys = Keys(config.prefix)
        self.calls = Calls(router, clock)
        self.layouts = Layouts(self.calls, self.keys, config)
        # Per process: a forked child does not receive the notifications of its parent.
        self._serving: PerProcess[Serving] = PerProcess()
        self._marks: PerProcess[Marks] = PerProcess()
        self.waiters = WaiterRegistry()
        self.turns = itertools.count()
        """Rotates which partitions get one more when a number cannot be split evenly."""
        self.fruitless_searches: dict[bytes, int] = {}
        """Partitions whose last search for jobs in no index found none, with the number that was expected."""

    @property
    def serving(self) -> Serving:
        """The cache of served queues of this process. A forked child has its own."""
        return self._serving.get(lambda: Serving(self.calls, self.layouts, self.keys, self.config.topology_interval))

    @property
    def marks(self) -> Marks:
        """The lease marks written by this process. A forked child has its own."""
        return self._marks.get(lambda: Marks(self.calls, self.keys))
