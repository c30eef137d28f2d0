"""Complete, retry, bury and release. Each ends a lease, and only for the holder of its token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scheduler.abilities import WAKE_HORIZON
from scheduler.leases import Completion, Failure, Lease
from scheduler.states import JobState
from scheduler_backends.postgres.statements.parts import SEPARATOR
from scheduler_backends.postgres.store import Store
from scheduler_backends.sql.fields import error_document
from scheduler_backends.sql.moments import later
from scheduler_backends.sql.slices import SLICE


def settle(
    store: Store,
    statement: str,
    leases: Sequence[Lease],
    columns: dict[str, list[Any]] | None = None,
    **parameters: Any,
) -> list[Lease]:
    """Run *statement* for *leases* and return the refused ones. *columns* are arrays with a value for each lease."""
    store.database.check_open()
    refused: list[Lease] = []
    for start in range(0, len(leases), SLICE):
        part = leases[start : start + SLICE]
        taken = store.run(
            statement,
            queues=SEPARATOR.join([lease.job.queue for lease in part]),
            ids=SEPARATOR.join([lease.job.id for lease in part]),
            tokens=SEPARATOR.join([lease.token for lease in part]),
            **{name: values[start : start + SLICE] for name, values in (columns or {}).items()},
            **parameters,
        )
        if len(taken) < len(part):
            positions = {position for (position,) in taken}
            refused += [lease for position, lease in enumerate(part, start=1) if position not in positions]
    return refused


class SettleHooks:
    """Hooks that end a lease: the job moves to the state that the holder requests."""

    _store: Store

    def _complete(self, completions: Sequence[Completion]) -> Sequence[Lease]:
        leases = [completion.lease for completion in completions]
        if self._store.retention.seconds(JobState.SUCCEEDED) <= 0.0:
            return settle(self._store, self._store.statements.settle.finish, leases)
        results = [completion.result for completion in completions]
        return settle(self._store, self._store.statements.settle.complete, leases, {"results": results})

    def _retry(self, failures: Sequence[Failure]) -> Sequence[Lease]:
        refused = self._fail(self._store.statements.settle.retry, failures)
        self._store.notifier.notify({failure.lease.job.queue for failure in failures if failure.delay <= WAKE_HORIZON})
        return refused

    def _bury(self, failures: Sequence[Failure]) -> Sequence[Lease]:
        if self._store.retention.seconds(JobState.DEAD) > 0.0:
            return self._fail(self._store.statements.settle.bury, failures)
        return settle(self._store, self._store.statements.settle.finish, [failure.lease for failure in failures])

    def _release(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        refused = settle(self._store, self._store.statements.settle.release, leases)
        self._store.notifier.notify({lease.job.queue for lease in leases})
        return refused

    def _fail(self, statement: str, failures: Sequence[Failure]) -> list[Lease]:
        columns: dict[str, list[Any]] = {
            "errors": [error_document(failure.error) for failure in failures],
            "delays": [later(0, failure.delay) for failure in failures],
            "returned": [int(not failure.counted) for failure in failures],
        }
        return settle(self._store, statement, [failure.lease for failure in failures], columns)
