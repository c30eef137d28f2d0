"""complete, retry, bury and release: every way out of a lease that its holder takes, fenced by the token."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.leases import Completion, Failure, Lease
from scheduler.states import JobState
from scheduler_backends.sql.arguments import are_possible_leases, is_possible_lease, slices
from scheduler_backends.sql.connections import Parameters
from scheduler_backends.sql.rows import WAKE_HORIZON, error_document, later
from scheduler_backends.sql.states import DEAD, RETRY_WAIT
from scheduler_backends.sqlite.store import Store


def settle(store: Store, statement: str, leases: Sequence[Lease], parameters: Sequence[Parameters]) -> list[Lease]:
    """Run *statement* once for each lease, and answer the leases for which it changed nothing: the refused."""
    refused: list[Lease] = []
    for part, rows in zip(slices(leases), slices(parameters), strict=True):
        with store.file.writing() as connection:
            if are_possible_leases(part) and connection.executemany(statement, rows).rowcount == len(part):
                continue
            # Some were refused, and only one by one does SQLite say which. Rare enough to do it all again.
            connection.execute("ROLLBACK")
            connection.execute("BEGIN IMMEDIATE")
            refused += [
                lease
                for lease, row in zip(part, rows, strict=True)
                if not is_possible_lease(lease) or connection.execute(statement, row).rowcount != 1
            ]
    return refused


class Settling:
    """Leased → wherever the holder says."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def complete(self, completions: Sequence[Completion]) -> Sequence[Lease]:
        """See `Backend.complete`."""
        leases = [completion.lease for completion in completions]
        if self._store.retention.seconds(JobState.SUCCEEDED) <= 0.0:
            return settle(self._store, self._store.statements.finish, leases, [_held(lease) for lease in leases])
        now = self._store.now()
        return settle(
            self._store,
            self._store.statements.complete,
            leases,
            [(now, completion.result, *_held(completion.lease)) for completion in completions],
        )

    def retry(self, failures: Sequence[Failure]) -> Sequence[Lease]:
        """See `Backend.retry`."""
        now = self._store.now()
        due = [later(now, failure.delay) for failure in failures]
        refused = settle(
            self._store,
            self._store.statements.fail,
            [failure.lease for failure in failures],
            [
                _failed(failure, now, state=RETRY_WAIT, due_at=due_at)
                for failure, due_at in zip(failures, due, strict=True)
            ],
        )
        horizon = now + WAKE_HORIZON
        self._store.waiters.notify(
            {failure.lease.job.queue for failure, due_at in zip(failures, due, strict=True) if due_at <= horizon}
        )
        return refused

    def bury(self, failures: Sequence[Failure]) -> Sequence[Lease]:
        """See `Backend.bury`."""
        leases = [failure.lease for failure in failures]
        if self._store.retention.seconds(JobState.DEAD) <= 0.0:
            return settle(self._store, self._store.statements.finish, leases, [_held(lease) for lease in leases])
        now = self._store.now()
        return settle(
            self._store,
            self._store.statements.fail,
            leases,
            [_failed(failure, now, state=DEAD, finished_at=now) for failure in failures],
        )

    def release(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        """First in line again, since due_at stays. See `Backend.release`."""
        refused = settle(self._store, self._store.statements.release, leases, [_held(lease) for lease in leases])
        self._store.waiters.notify({lease.job.queue for lease in leases})
        return refused


def _held(lease: Lease) -> tuple[str, str, str]:
    return lease.job.queue, lease.job.id, lease.token


def _failed(
    failure: Failure, now: int, *, state: int, due_at: int | None = None, finished_at: int | None = None
) -> dict[str, object]:
    queue, id, token = _held(failure.lease)
    return {
        "error": error_document(failure.error),
        "now": now,
        "state": state,
        "due_at": due_at,
        "finished_at": finished_at,
        "returned": not failure.counted,
        "queue": queue,
        "id": id,
        "token": token,
    }
