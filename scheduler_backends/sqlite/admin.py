"""The operator's hooks: cancel, requeue, purge, pause, resume, and migration of the tables."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.leases import MoveAnswer
from scheduler.states import MOVES, JobState
from scheduler_backends.sql.schema import script
from scheduler_backends.sql.slices import slices
from scheduler_backends.sql.states import shown_state
from scheduler_backends.sqlite.store import Store


class AdminHooks:
    """Hooks for moves of jobs by id and changes of whole queues, and the methods for migration."""

    _store: Store

    def _cancel(self, queue: str, ids: Sequence[str]) -> Sequence[MoveAnswer]:
        statements = self._store.statements
        is_kept = self._store.retention.seconds(JobState.CANCELLED) > 0.0
        return self._move("cancel", queue, ids, statements.cancel if is_kept else statements.delete_row)

    def _requeue(self, queue: str, ids: Sequence[str]) -> Sequence[MoveAnswer]:
        moves = self._move("requeue", queue, ids, self._store.statements.requeue)
        if any(move.moved for move in moves):
            self._store.waiters.notify({queue})
        return moves

    def _pause(self, queue: str) -> None:
        self._set_paused(queue, paused=True)

    def _resume(self, queue: str) -> None:
        self._set_paused(queue, paused=False)
        self._store.waiters.notify({queue})

    def _purge(self, queue: str, state: JobState, limit: int) -> int:
        purged = 0
        for part in slices(range(limit)):
            with self._store.file.writing() as connection:
                parameters = {"queue": queue, "now": self._store.now(), "limit": len(part)}
                more = connection.execute(self._store.statements.purge[state], parameters).rowcount
            purged += more
            if more < len(part):
                break
        return purged

    def migrate(self) -> int:
        """Bring the tables up to date and return the number of steps applied. Safe to call at any time."""
        with self._store.file.writing(prepared=False) as connection:
            return self._store.file.schema.migrate_on(connection.execute)

    def schema_version(self) -> int:
        """Return the version of the schema in the file, 0 = there are no tables."""
        # Not by `reading`: this may create the file, which would disturb readers.
        with self._store.file.writing(single=True, prepared=False) as connection:
            return self._store.file.schema.version_of(connection.execute)

    def check_schema(self) -> None:
        """Raise `SchemaMismatch`, which says what to do, unless the schema is up to date. Changes nothing."""
        with self._store.file.writing(single=True, prepared=False) as connection:
            self._store.file.schema.is_current(connection.execute, may_migrate=False)

    def migration_sql(self, from_version: int = 0, to_version: int | None = None) -> str:
        """Return the SQL that `migrate` runs between two versions of the schema (None = the newest), for review."""
        return script("BEGIN IMMEDIATE", *self._store.file.schema.statements(from_version, to_version), "COMMIT")

    def _set_paused(self, queue: str, *, paused: bool) -> None:
        with self._store.file.writing() as connection:
            connection.execute(self._store.statements.pause, {"queue": queue, "paused": paused})

    def _move(self, move: str, queue: str, ids: Sequence[str], statement: str) -> list[MoveAnswer]:
        self._store.file.check_open()
        (target,) = MOVES[move].targets
        results: list[MoveAnswer] = []
        for part in slices(ids):
            with self._store.file.writing() as connection:
                now = self._store.now()
                for id in part:
                    found = connection.execute(self._store.statements.state_of, (now, queue, id)).fetchone()
                    if found is None:
                        results.append(MoveAnswer(id=id, moved=False, state=None))
                        continue
                    rowid, code, is_due = found
                    state = shown_state(code, is_due=is_due)
                    moves = state in MOVES[move].sources
                    if moves:
                        connection.execute(statement, {"rowid": rowid, "now": now})
                    results.append(MoveAnswer(id=id, moved=moves, state=target if moves else state))
        return results
