"""Complete, retry, bury and release. Each ends a lease, and only for the holder of its token."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.leases import Completion, Failure, Lease
from scheduler.states import JobState
from scheduler_backends.sql.fields import error_document
from scheduler_backends.sql.moments import WAKE_HORIZON, later
from scheduler_backends.sql.states import DEAD, RETRY_WAIT
from scheduler_backends.sqlite.store import Store


class SettleHooks:
    """Hooks that end a lease: the job moves to the state that the holder requests."""

    _store: Store

    def _complete(self, completions: Sequence[Completion]) -> Sequence[Lease]:
        leases = [completion.lease for completion in completions]
        if self._store.retention.seconds(JobState.SUCCEEDED) <= 0.0:
            return self._delete(leases)
        now = self._store.now()
        rows = [(now, completion.result, *_held(completion.lease)) for completion in completions]
        return self._store.change_held(self._store.statements.complete, leases, rows)

    def _retry(self, failures: Sequence[Failure]) -> Sequence[Lease]:
        now = self._store.now()
        rows = [_failed(failure, now, state=RETRY_WAIT, due_at=later(now, failure.delay)) for failure in failures]
        refused = self._store.change_held(self._store.statements.fail, [failure.lease for failure in failures], rows)
        soon = [failure.lease.job.queue for failure in failures if later(now, failure.delay) <= now + WAKE_HORIZON]
        self._store.waiters.notify(set(soon))
        return refused

    def _bury(self, failures: Sequence[Failure]) -> Sequence[Lease]:
        leases = [failure.lease for failure in failures]
        if self._store.retention.seconds(JobState.DEAD) <= 0.0:
            return self._delete(leases)
        now = self._store.now()
        rows = [_failed(failure, now, state=DEAD, finished_at=now) for failure in failures]
        return self._store.change_held(self._store.statements.fail, leases, rows)

    def _release(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        # due_at does not change, so the job is first in its queue again.
        refused = self._store.change_held(self._store.statements.release, leases, [_held(lease) for lease in leases])
        self._store.waiters.notify({lease.job.queue for lease in leases})
        return refused

    def _delete(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        # Retention is 0: the job has finished and is deleted at once.
        return self._store.change_held(self._store.statements.finish, leases, [_held(lease) for lease in leases])


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
