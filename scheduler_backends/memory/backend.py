"""The memory backend: its construction, its clock and its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from scheduler.backend import Backend
from scheduler.clock import Clock
from scheduler.errors import ConfigError
from scheduler.limits import check_clock, check_count, check_kind, check_queues
from scheduler.queues import Retention
from scheduler.topology import check_partitions
from scheduler.urls import RETENTION_OPTIONS, Parser, retention_from, split_options
from scheduler_backends.memory.admin import AdminHooks
from scheduler_backends.memory.enqueue import EnqueueHooks
from scheduler_backends.memory.lease import LeaseHooks
from scheduler_backends.memory.maintenance import MaintenanceHooks
from scheduler_backends.memory.reads import ReadHooks
from scheduler_backends.memory.settle import SettleHooks
from scheduler_backends.memory.store import Store
from scheduler_backends.memory.waiter import MemoryWaiter

_URL_OPTIONS: Mapping[str, Parser] = {"partitions": int, "active_version": int, **RETENTION_OPTIONS}


class MemoryBackend(EnqueueHooks, LeaseHooks, SettleHooks, MaintenanceHooks, AdminHooks, ReadHooks, Backend):
    """
    Jobs in this process's memory, gone with it: for tests, the first five minutes, and work inside one process.

    Offers Wakeups and TopologyAdmin. Safe in any thread. Inside another call of the same thread, as by a signal handler
    or finaliser, a call raises `BackendUnavailable`. A forked child has a copy of its own, and logs that when it first
    uses it.

    Args:
        partitions: how many a queue has when it is first used.
        active_version: the number of the version that a queue has when it is first used.
        retention: how long finished jobs are kept.
        clock: decides what is due and what has expired; None = this machine's.
    """

    in_process = True

    def __init__(
        self,
        *,
        partitions: int = 1,
        active_version: int = 1,
        retention: Retention | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.retention = Retention() if retention is None else check_kind("retention", retention, Retention)
        self._store = Store(
            version=check_count("active_version", active_version, at_least=1),
            partitions=check_partitions(partitions),
            retention=self.retention,
            clock=check_clock(clock),
        )

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Return a new, empty store: ``memory://?partitions=8&retain_succeeded=60``."""
        rest, options = split_options(url, _URL_OPTIONS)
        if rest.lower() not in ("memory", "memory://"):
            raise ConfigError("url", "must be memory:// without host or path, since the store has no name")
        retention = retention_from(options)
        numbers = {name: int(value) for name, value in options.items()}
        return cls(retention=retention, **numbers)  # type: ignore[arg-type]  # names and values were checked above

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @property
    def clock(self) -> Clock | None:
        """Decides what is due and what has expired; None = this machine's. May be replaced at any time."""
        return self._store.clock

    @clock.setter
    def clock(self, clock: Clock | None) -> None:
        self._store.clock = check_clock(clock)

    def ping(self) -> None:
        """Return, unless the backend was closed."""
        with self._store.lock:
            self._store.look()

    def close(self) -> None:
        """Forget all jobs and end every wait."""
        with self._store.lock:
            self._store.close()

    def waiter(self, queues: Sequence[str]) -> MemoryWaiter:
        """Return a waiter that is notified of *queues* from now on."""
        names = check_queues(queues)
        with self._store.lock:
            self._store.look()
            return MemoryWaiter(self._store.waiters, names)
