"""cancel, requeue, purge, trim, pause and resume: what an operator, or retention, does to a queue."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence

from scheduler.errors import ConfigError
from scheduler.leases import MoveAnswer
from scheduler.limits import check_limit, check_queues
from scheduler.states import MOVES, TERMINAL, JobState
from scheduler_backends.sql.arguments import check_ids, check_queue, is_possible_id, slices
from scheduler_backends.sql.rows import later
from scheduler_backends.sql.states import CODES, shown_state
from scheduler_backends.sqlite.store import Store

_Apply = Callable[[sqlite3.Connection, Mapping[str, int]], object]  # the mapping: rowid and now


class Curating:
    """Moves of single jobs by name, and the end of finished ones."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def cancel(self, queue: str, ids: Sequence[str]) -> Sequence[MoveAnswer]:
        """See `Backend.cancel`."""
        statements = self._store.statements
        if self._store.retention.seconds(JobState.CANCELLED) > 0.0:
            return self._move("cancel", queue, ids, lambda c, row: c.execute(statements.cancel, row))
        return self._move("cancel", queue, ids, lambda c, row: c.execute(statements.delete_row, row))

    def requeue(self, queue: str, ids: Sequence[str]) -> Sequence[MoveAnswer]:
        """See `Backend.requeue`."""
        statements = self._store.statements
        answers = self._move("requeue", queue, ids, lambda c, row: c.execute(statements.requeue, row))
        if any(answer.moved for answer in answers):
            self._store.waiters.notify({queue})
        return answers

    def purge(self, queue: str, state: JobState, limit: int) -> int:
        """See `Backend.purge`."""
        check_queue(queue)
        check_limit(limit)
        if state is JobState.LEASED:
            raise ConfigError("state", "leased jobs cannot be purged: their holders are at work")
        statement = self._store.statements.purge[JobState(state)]
        gone = 0
        for part in slices(range(limit)):
            with self._store.file.writing() as connection:
                asked = {"queue": queue, "now": self._store.now(), "limit": len(part)}
                more = connection.execute(statement, asked).rowcount
            gone += more
            if more < len(part):
                break
        return gone

    def trim(self, queues: Sequence[str], limit: int) -> int:
        """See `Backend.trim`."""
        names = check_queues(queues)
        check_limit(limit)
        statement, retention = self._store.statements.trim, self._store.retention
        gone = 0
        for queue in names:
            for state in sorted(TERMINAL):
                for part in slices(range(limit - gone)):
                    before = later(self._store.now(), -retention.seconds(state))
                    with self._store.file.reading() as connection:  # mostly there is nothing to write
                        (any_left,) = connection.execute(
                            self._store.statements.outlived, (queue, CODES[state], before)
                        ).fetchone()
                    if not any_left:
                        break
                    with self._store.file.writing() as connection:
                        gone += connection.execute(statement, (queue, CODES[state], before, len(part))).rowcount
        return gone

    def pause(self, queue: str) -> None:
        """See `Backend.pause`."""
        self._set_paused(check_queue(queue), paused=True)

    def resume(self, queue: str) -> None:
        """See `Backend.resume`."""
        self._set_paused(check_queue(queue), paused=False)
        self._store.waiters.notify({queue})

    def _set_paused(self, queue: str, *, paused: bool) -> None:
        with self._store.file.writing() as connection:
            connection.execute(self._store.statements.pause, {"queue": queue, "paused": paused})

    def _move(self, move: str, queue: str, ids: Sequence[str], apply: _Apply) -> list[MoveAnswer]:
        check_queue(queue)
        (target,) = MOVES[move].targets
        answers: list[MoveAnswer] = []
        for part in slices(check_ids(ids)):
            with self._store.file.writing() as connection:
                now = self._store.now()
                for id in part:
                    found = None
                    if is_possible_id(id):
                        found = connection.execute(self._store.statements.stands, (now, queue, id)).fetchone()
                    if found is None:
                        answers.append(MoveAnswer(id=id, moved=False, state=None))
                        continue
                    rowid, code, is_due = found
                    state = shown_state(code, is_due=is_due)
                    moves = state in MOVES[move].sources
                    if moves:
                        apply(connection, {"rowid": rowid, "now": now})
                    answers.append(MoveAnswer(id=id, moved=moves, state=target if moves else state))
        return answers
