"""The contract outside, one SQLite file inside."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Self

from scheduler.backend import Backend
from scheduler.clock import Clock, SystemClock
from scheduler.jobs import Job, NewJob
from scheduler.leases import Completion, Enqueued, Failure, Lease, MoveAnswer, Promotion, Recovery, Renewal
from scheduler.limits import check_kind, check_queues
from scheduler.queues import Page, QueueStats, Retention
from scheduler.states import JobState
from scheduler_backends.sql.connections import Execute
from scheduler_backends.sql.rows import to_micros
from scheduler_backends.sql.versions import check_version
from scheduler_backends.sqlite import schema
from scheduler_backends.sqlite.connection import Synchronous
from scheduler_backends.sqlite.curating import Curating
from scheduler_backends.sqlite.file import File
from scheduler_backends.sqlite.leasing import Leasing
from scheduler_backends.sqlite.options import merged, read
from scheduler_backends.sqlite.reads import Reads
from scheduler_backends.sqlite.settling import Settling
from scheduler_backends.sqlite.statements import statements
from scheduler_backends.sqlite.store import Store
from scheduler_backends.sqlite.storing import Storing
from scheduler_backends.sqlite.wakeups import SqliteWaiter, WaiterRegistry
from scheduler_backends.sqlite.watching import Watch


class SqliteBackend(Backend):
    """
    Jobs in the SQLite file at *path_or_url* (``jobs.db``, ``sqlite:///jobs.db``), made when it is not there.

    retention: how long finished jobs are kept. clock: what time it is; None = the machine's. synchronous: "full" = a
    commit outlives a power cut; "normal" = faster, and a power cut may undo the last commits, never damage the file.
    timeout: seconds to wait for other writers before `BackendUnavailable`. prefix: of the tables' names, for a file
    that holds other things too. migrate: create the tables or bring them up to date when first used; without it, a
    file that needs it raises `SchemaMismatch`. Local disks only: on network file systems SQLite's locks do not hold.
    """

    clock: Clock | None

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
        self._path, in_url = read(path_or_url)
        given = {
            "retention": retention,
            "synchronous": synchronous,
            "timeout": timeout,
            "prefix": prefix,
            "migrate": migrate,
        }
        options = merged(given, in_url)
        self._prefix = options["prefix"]
        self._may_migrate = options["migrate"]
        self.retention = options["retention"] or Retention()
        self.clock = None if clock is None else check_kind("clock", clock, Clock)
        self._system = SystemClock()
        self._file = File(
            self._path,
            synchronous=options["synchronous"],
            timeout=options["timeout"],
            is_prepared=self._is_current,
            prepare=lambda execute: schema.migrate(execute, self._prefix),
        )
        texts = statements(self._prefix)
        self._waiters = WaiterRegistry(partial(Watch, self._file, texts.news, now=self._now))
        store = Store(
            file=self._file,
            statements=texts,
            retention=self.retention,
            now=self._now,
            waiters=self._waiters,
        )
        self._storing, self._leasing, self._settling = Storing(store), Leasing(store), Settling(store)
        self._curating, self._reads = Curating(store), Reads(store)

    @classmethod
    def from_url(cls, url: str) -> Self:
        """``sqlite:///relative.db`` or ``sqlite:////absolute.db``, with the arguments of the class as options."""
        return cls(url)

    def __repr__(self) -> str:
        return f"SqliteBackend({self._path!r})"

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        return self._storing.enqueue(jobs)

    def promote_due(self, queues: Sequence[str], limit: int) -> Promotion:
        return self._leasing.promote_due(queues, limit)

    def lease(
        self, queues: Sequence[str], *, token: str, worker_id: str, duration: float, limit: int
    ) -> Sequence[Lease]:
        return self._leasing.lease(queues, token=token, worker_id=worker_id, duration=duration, limit=limit)

    def renew(self, leases: Sequence[Lease], duration: float) -> Renewal:
        return self._leasing.renew(leases, duration)

    def complete(self, completions: Sequence[Completion]) -> Sequence[Lease]:
        return self._settling.complete(completions)

    def retry(self, failures: Sequence[Failure]) -> Sequence[Lease]:
        return self._settling.retry(failures)

    def bury(self, failures: Sequence[Failure]) -> Sequence[Lease]:
        return self._settling.bury(failures)

    def release(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        return self._settling.release(leases)

    def recover_expired(self, queues: Sequence[str], limit: int) -> Recovery:
        return self._leasing.recover_expired(queues, limit)

    def cancel(self, queue: str, ids: Sequence[str]) -> Sequence[MoveAnswer]:
        return self._curating.cancel(queue, ids)

    def requeue(self, queue: str, ids: Sequence[str]) -> Sequence[MoveAnswer]:
        return self._curating.requeue(queue, ids)

    def get(self, queue: str, ids: Sequence[str]) -> Mapping[str, Job]:
        return self._reads.get(queue, ids)

    def list(self, queue: str, state: JobState, *, cursor: str | None = None, limit: int = 100) -> Page:
        return self._reads.list(queue, state, cursor=cursor, limit=limit)

    def stats(self, queues: Sequence[str] | None = None) -> Sequence[QueueStats]:
        return self._reads.stats(queues)

    def pause(self, queue: str) -> None:
        self._curating.pause(queue)

    def resume(self, queue: str) -> None:
        self._curating.resume(queue)

    def purge(self, queue: str, state: JobState, limit: int) -> int:
        return self._curating.purge(queue, state, limit)

    def trim(self, queues: Sequence[str], limit: int) -> int:
        return self._curating.trim(queues, limit)

    def ping(self) -> None:
        with self._file.reading() as connection:
            connection.execute("SELECT 1").fetchone()

    def close(self) -> None:
        self._waiters.close()
        self._file.close()

    def waiter(self, queues: Sequence[str]) -> SqliteWaiter:
        """See `Wakeups`."""
        return self._waiters.waiter(check_queues(queues))

    def enqueue_with(self, connection: object, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        """See `TransactionalEnqueue`: sqlite3, SQLAlchemy and Django connections to the same file, and Sessions."""
        return self._storing.enqueue_with(connection, jobs)

    def migrate(self) -> int:
        """Bring the tables up to date, and answer how many steps that took: 0 = they were. Harmless at any time."""
        with self._file.writing(prepared=False) as connection:
            return schema.migrate(connection.execute, self._prefix)

    def schema_version(self) -> int:
        """The version of the schema in the file, 0 = none."""
        with self._file.writing(single=True, prepared=False) as connection:  # making a file disturbs who reads it
            return schema.version_of(connection.execute, self._prefix)

    def check_schema(self) -> None:
        """Raise `SchemaMismatch`, which says what to do, unless the schema is up to date. Changes nothing."""
        check_version(self.schema_version(), len(schema.STEPS), may_migrate=False)

    def migration_sql(self, from_version: int = 0, to_version: int | None = None) -> str:
        """What `migrate` runs between two versions of the schema, for those who review it (None = the newest)."""
        return schema.migration_sql(self._prefix, from_version, to_version)

    def _now(self) -> int:
        return to_micros((self.clock or self._system).now())

    def _is_current(self, execute: Execute) -> bool:
        present = schema.version_of(execute, self._prefix)
        check_version(present, len(schema.STEPS), may_migrate=self._may_migrate)
        return present == len(schema.STEPS)
