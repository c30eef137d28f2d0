"""The operator's hooks: cancel, requeue, pause, resume, purge, and migration of the tables."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.leases import MoveAnswer
from scheduler.states import JobState
from scheduler_backends.postgres.store import Store
from scheduler_backends.sql.slices import SLICE, slices
from scheduler_backends.sql.states import shown_state


class AdminHooks:
    """Hooks for moves of jobs by id and changes of whole queues, and the methods for migration."""

    _store: Store

    def _cancel(self, queue: str, ids: Sequence[str]) -> Sequence[MoveAnswer]:
        statements = self._store.statements.admin
        keeps = self._store.retention.seconds(JobState.CANCELLED) > 0.0
        statement = statements.cancel if keeps else statements.cancel_deleting
        return self._move(JobState.CANCELLED, statement, queue, ids, keeps=keeps)

    def _requeue(self, queue: str, ids: Sequence[str]) -> Sequence[MoveAnswer]:
        results = self._move(JobState.READY, self._store.statements.admin.requeue, queue, ids, keeps=True)
        if any(result.moved for result in results):
            self._store.notifier.notify({queue})
        return results

    def _move(
        self, target: JobState, statement: str, queue: str, ids: Sequence[str], *, keeps: bool
    ) -> list[MoveAnswer]:
        self._store.database.check_open()
        results: list[MoveAnswer] = []
        for part in slices(ids):
            rows = self._store.run(statement, queue=queue, ids=sorted(set(part)))
            found: dict[str, tuple[JobState | None, bool]] = {
                id: (shown_state(code, is_due=is_due), moved) for id, code, is_due, moved in rows
            }
            for id in part:
                state, moved = found.get(id, (None, False))
                results.append(MoveAnswer(id=id, moved=moved, state=target if moved else state))
                if moved:  # for a repetition of the id in this call
                    found[id] = (target if keeps else None, False)
        return results

    def _pause(self, queue: str) -> None:
        self._store.run(self._store.statements.admin.set_paused, name=queue, paused=True)

    def _resume(self, queue: str) -> None:
        self._store.run(self._store.statements.admin.set_paused, name=queue, paused=False)
        self._store.notifier.notify({queue})

    def _purge(self, queue: str, state: JobState, limit: int) -> int:
        statement = self._store.statements.admin.purge[state]
        deleted = 0
        while deleted < limit:
            ((more,),) = self._store.run(statement, queue=queue, limit=min(SLICE, limit - deleted))
            deleted += more
            if not more:
                break
        return deleted

    def migrate(self) -> int:
        """Bring the tables up to date and return the number of steps applied. Safe to call at any time."""
        return self._store.database.unchecked(self._store.schema.migrate)

    def schema_version(self) -> int:
        """Return the version of the schema in the database, 0 = there are no tables."""
        return self._store.database.unchecked(self._store.schema.version)

    def check_schema(self) -> None:
        """Raise `SchemaMismatch`, which says what to do, unless the schema is up to date. Changes nothing."""
        self._store.database.unchecked(self._store.schema.check)

    def migration_sql(self, from_version: int = 0, to_version: int | None = None) -> str:
        """Return the SQL that `migrate` runs between two versions of the schema (None = the newest), for review."""
        return self._store.schema.migration_sql(from_version, to_version)
