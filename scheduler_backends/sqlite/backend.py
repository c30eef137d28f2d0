"""Construction of the SQLite backend. Its methods are in the other modules of this package."""

from __future__ import annotations

import os
from typing import Self

from scheduler.backend import Backend
from scheduler.clock import Clock
from scheduler.limits import check_clock
from scheduler.queues import Retention
from scheduler_backends.sqlite.admin import AdminHooks
from scheduler_backends.sqlite.connection import Synchronous
from scheduler_backends.sqlite.enqueue import EnqueueHooks
from scheduler_backends.sqlite.file import File
from scheduler_backends.sqlite.lease import LeaseHooks
from scheduler_backends.sqlite.maintenance import MaintenanceHooks
from scheduler_backends.sqlite.options import Options
from scheduler_backends.sqlite.reads import ReadHooks
from scheduler_backends.sqlite.settle import SettleHooks
from scheduler_backends.sqlite.statements import Statements
from scheduler_backends.sqlite.store import Store
from scheduler_backends.sqlite.waiter import WaiterHooks


class SqliteBackend(
    EnqueueHooks, LeaseHooks, SettleHooks, MaintenanceHooks, AdminHooks, ReadHooks, WaiterHooks, Backend
):
    """
    Backend that stores jobs in an SQLite file. The file is created if it does not exist.

    The file must be on a local disk: SQLite's locks are not reliable on network file systems.
    """

    def __init__(
        self,
        path_or_url: str | os.PathLike[str],
        *,
        retention: Retention | None = None,
        clock: Clock | None = None,
        synchronous: Synchronous = "full",
        timeout: float = 5.0,
        prefix: str = "scheduler_",
        migrate: bool = True,
    ) -> None:
        """
        Prepare the backend. The file is opened by the first call.

        Args:
            path_or_url: ``jobs.db`` or ``sqlite:///jobs.db``, with the other arguments as options of the URL.
            retention: how long finished jobs are kept. None = the defaults of `Retention`.
            clock: the source of the current time, for tests. None = the machine's clock.
            synchronous: "full" = a commit survives a power failure. "normal" is faster: a power failure may undo the
                last commits, but never damages the file.
            timeout: seconds to wait for other writers before `BackendUnavailable` is raised.
            prefix: the beginning of the table names, for a file that contains other tables as well.
            migrate: create or update the tables when they are first used. If False, a file whose tables are missing
                or old raises `SchemaMismatch`.

        Raises:
            ConfigError: an argument is invalid, or differs from the same option in the URL.
            NotSupported: this Python's SQLite is too old.
        """
        path, options = Options(
            retention=Retention() if retention is None else retention,
            synchronous=synchronous,
            timeout=timeout,
            prefix=prefix,
            migrate=migrate,
        ).within(path_or_url)
        self.retention = options.retention
        self._store = Store(
            file=File(path, options),
            statements=Statements(options.prefix),
            retention=options.retention,
            clock=check_clock(clock),
        )

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Return a backend for ``sqlite:///relative.db`` or ``sqlite:////absolute.db``, with options."""
        return cls(url)

    @property
    def clock(self) -> Clock | None:
        """The source of the current time. None = the machine's clock; tests set another one."""
        return self._store.clock

    @clock.setter
    def clock(self, clock: Clock | None) -> None:
        self._store.clock = check_clock(clock)

    def __repr__(self) -> str:
        return f"SqliteBackend({self._store.file.path!r})"

    def close(self) -> None:
        """See `Backend.close`."""
        self._store.waiters.close()
        self._store.file.close()
