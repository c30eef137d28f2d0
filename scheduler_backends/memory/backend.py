"""The class of the memory backend: construction, clock and close."""

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
    Backend in the memory of this process, for tests, first steps, and work inside one process.

    It has the abilities Wakeups and TopologyAdmin. Safe in any thread. A call inside another call of the same thread,
    made by a signal handler or finaliser, raises `BackendUnavailable`. A forked child has its own copy of the jobs, and
    logs a warning about it at its first enqueue or lease.

    Args:
        partitions: Number of partitions that a queue has when it is first used.
        active_version: Number of the version that a queue has when it is first used.
        retention: How long finished jobs are kept. None = the defaults of `Retention`.
        clock: Decides which jobs are due and which leases have expired. None = this machine's clock.
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
        """Return a new, empty store for a URL such as ``memory://?partitions=8&retain_succeeded=60``."""
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
        """Clock that decides which jobs are due; None = this machine's clock. May be replaced at any time."""
        return self._store.clock

    @clock.setter
    def clock(self, clock: Clock | None) -> None:
        self._store.clock = check_clock(clock)

    def ping(self) -> None:
        """Raise `BackendClosed` if the backend was closed."""
        with self._store.lock:
            self._store.look()

    def close(self) -> None:
        """Delete all jobs and end every wait."""
        with self._store.lock:
            self._store.close()

    def waiter(self, queues: Sequence[str]) -> MemoryWaiter:
        """Return a waiter that is notified of work in *queues* from now on."""
        names = check_queues(queues)
        with self._store.lock:
            self._store.look()
            return MemoryWaiter(self._store.waiters, names)
