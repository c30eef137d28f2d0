"""cancel, requeue, purge, trim, pause and resume: what an operator, or retention, does to a queue."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.errors import ConfigError
from scheduler.leases import MoveAnswer
from scheduler.limits import check_limit, check_queues
from scheduler.states import TERMINAL, JobState
from scheduler_backends.postgres.store import Store
from scheduler_backends.sql.arguments import SLICE, check_ids, check_queue, is_possible_id, slices
from scheduler_backends.sql.rows import later
from scheduler_backends.sql.states import CODES, shown_state


class Curating:
    """Moves of single jobs by name, and the end of finished ones."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._statements = store.statements.curating

    def cancel(self, queue: str, ids: Sequence[str]) -> Sequence[MoveAnswer]:
        """See `Backend.cancel`."""
        keeps = self._store.retention.seconds(JobState.CANCELLED) > 0.0
        statement = self._statements.cancel if keeps else self._statements.cancel_deleting
        return self._move(JobState.CANCELLED, statement, queue, ids, keeps=keeps)

    def requeue(self, queue: str, ids: Sequence[str]) -> Sequence[MoveAnswer]:
        """See `Backend.requeue`."""
        answers = self._move(JobState.READY, self._statements.requeue, queue, ids, keeps=True)
        if any(answer.moved for answer in answers):
            self._store.notifier.notify({queue})
        return answers

    def purge(self, queue: str, state: JobState, limit: int) -> int:
        """See `Backend.purge`."""
        check_queue(queue)
        check_limit(limit)
        if state is JobState.LEASED:
            raise ConfigError("state", "leased jobs cannot be purged: their holders are at work")
        statement = self._statements.purge(JobState(state))
        gone = 0
        while gone < limit:
            ((more,),) = self._store.run(statement, queue=queue, limit=min(SLICE, limit - gone))
            gone += more
            if not more:
                break
        return gone

    def trim(self, queues: Sequence[str], limit: int) -> int:
        """See `Backend.trim`."""
        names = check_queues(queues)
        check_limit(limit)
        gone = 0
        for state in sorted(TERMINAL):
            kept = later(0, self._store.retention.seconds(state))
            chosen = {"state": CODES[state], "kept": kept}
            for (queue,) in self._store.run(self._statements.outlived, queues=list(names), **chosen):
                more = 1
                while gone < limit and more:
                    ((more,),) = self._store.run(
                        self._statements.trim, queue=queue, limit=min(SLICE, limit - gone), **chosen
                    )
                    gone += more
        return gone

    def pause(self, queue: str) -> None:
        """See `Backend.pause`."""
        self._store.run(self._statements.set_paused, name=check_queue(queue), paused=True)

    def resume(self, queue: str) -> None:
        """See `Backend.resume`."""
        self._store.run(self._statements.set_paused, name=check_queue(queue), paused=False)
        self._store.notifier.notify({queue})

    def _move(
        self, target: JobState, statement: str, queue: str, ids: Sequence[str], *, keeps: bool
    ) -> list[MoveAnswer]:
        check_queue(queue)
        answers: list[MoveAnswer] = []
        for part in slices(check_ids(ids)):
            possible = sorted({id for id in part if is_possible_id(id)})
            rows = self._store.run(statement, queue=queue, ids=possible)
            found: dict[str, tuple[JobState | None, bool]] = {
                id: (shown_state(code, is_due=is_due), moved) for id, code, is_due, moved in rows
            }
            for id in part:
                state, moved = found.get(id, (None, False))
                answers.append(MoveAnswer(id=id, moved=moved, state=target if moved else state))
                if moved:  # the same id again in this call
                    found[id] = (target if keeps else None, False)
        return answers
