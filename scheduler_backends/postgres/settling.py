"""complete, retry, bury and release: every way out of a lease that its holder takes, fenced by the token."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any

from scheduler.leases import Completion, Failure, Lease
from scheduler.states import JobState
from scheduler_backends.postgres.store import Store
from scheduler_backends.sql.arguments import SEPARATOR, SLICE, are_possible_leases, is_possible_lease
from scheduler_backends.sql.rows import WAKE_HORIZON, error_document, later


def settle(
    store: Store,
    statement: str,
    leases: Sequence[Lease],
    columns: dict[str, list[Any]] | None = None,
    **parameters: Any,
) -> list[Lease]:
    """Run *statement* for *leases*, with further *columns* of each, and answer those that it did not take: refused."""
    refused: list[Lease] = []
    for start in range(0, len(leases), SLICE):
        part = leases[start : start + SLICE]
        chosen = {name: values[start : start + SLICE] for name, values in (columns or {}).items()}
        if not are_possible_leases(part):
            kept = [is_possible_lease(lease) for lease in part]
            refused += [lease for lease, is_kept in zip(part, kept, strict=True) if not is_kept]
            part = list(compress(part, kept))
            chosen = {name: list(compress(values, kept)) for name, values in chosen.items()}
            if not part:
                continue
        taken = store.run(
            statement,
            queues=SEPARATOR.join([lease.job.queue for lease in part]),
            ids=SEPARATOR.join([lease.job.id for lease in part]),
            tokens=SEPARATOR.join([lease.token for lease in part]),
            **chosen,
            **parameters,
        )
        if len(taken) < len(part):
            positions = {position for (position,) in taken}
            refused += [lease for position, lease in enumerate(part, start=1) if position not in positions]
    return refused


class Settling:
    """Leased → wherever the holder says."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._statements = store.statements.settling

    def complete(self, completions: Sequence[Completion]) -> Sequence[Lease]:
        """See `Backend.complete`."""
        leases = [completion.lease for completion in completions]
        if self._store.retention.seconds(JobState.SUCCEEDED) <= 0.0:
            return settle(self._store, self._statements.finish, leases)
        results = [completion.result for completion in completions]
        return settle(self._store, self._statements.complete, leases, {"results": results})

    def retry(self, failures: Sequence[Failure]) -> Sequence[Lease]:
        """See `Backend.retry`."""
        columns = _columns(failures)
        refused = settle(self._store, self._statements.retry, [failure.lease for failure in failures], columns)
        soon = {
            failure.lease.job.queue
            for failure, delay in zip(failures, columns["delays"], strict=True)
            if delay <= WAKE_HORIZON
        }
        self._store.notifier.notify(soon)
        return refused

    def bury(self, failures: Sequence[Failure]) -> Sequence[Lease]:
        """See `Backend.bury`."""
        leases = [failure.lease for failure in failures]
        if self._store.retention.seconds(JobState.DEAD) <= 0.0:
            return settle(self._store, self._statements.finish, leases)
        return settle(self._store, self._statements.bury, leases, _columns(failures))

    def release(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        """First in line again, since due_at stays. See `Backend.release`."""
        refused = settle(self._store, self._statements.release, leases)
        self._store.notifier.notify({lease.job.queue for lease in leases})
        return refused


def _columns(failures: Sequence[Failure]) -> dict[str, list[Any]]:
    return {
        "errors": [error_document(failure.error) for failure in failures],
        "delays": [later(0, failure.delay) for failure in failures],
        "returned": [int(not failure.counted) for failure in failures],
    }
