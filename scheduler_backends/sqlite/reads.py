"""Get, list, stats and ping. Each costs a few index look-ups and the rows that it returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scheduler.jobs import Job
from scheduler.limits import is_possible_id
from scheduler.queues import QueueStats
from scheduler.states import JobState
from scheduler_backends.sql.columns import JobRow
from scheduler_backends.sql.counting import CAP, queue_stats
from scheduler_backends.sql.cursors import KEYS, first_position, next_priority, read_place, write_place
from scheduler_backends.sql.decoding import job_of
from scheduler_backends.sql.slices import SLICE, slices
from scheduler_backends.sqlite.store import Store, accept_any_text


class ReadHooks:
    """Hooks that read jobs and queues."""

    _store: Store

    @accept_any_text
    def _get(self, queue: str, ids: Sequence[str]) -> Mapping[str, Job]:
        self._store.file.check_open()
        jobs = {}
        for part in slices(ids):  # so that a lease, which also reads first, does not wait for long
            with self._store.file.reading() as connection:
                now = self._store.now()
                for id in part:
                    found = connection.execute(self._store.statements.find, (queue, id)).fetchone()
                    if found is not None:
                        jobs[id] = job_of(JobRow._make(found), now)
        return jobs

    @accept_any_text
    def _list(self, queue: str, state: JobState, place: str | None, limit: int) -> tuple[Sequence[Job], str | None]:
        position = first_position(state, "") if place is None else read_place(state, place, any_value=True)
        statement = self._store.statements.walk[state]
        jobs: list[Job] = []
        now = self._store.now()
        while True:
            # One row more than needed shows whether there is a next page.
            wanted = min(limit - len(jobs), SLICE) + 1
            parameters: dict[str, object] = {"queue": queue, "now": now, "limit": wanted, "priority": position[0]}
            for name, value in zip(("key", "id"), position[1:], strict=True):
                bound = _as_stored(value)
                parameters |= {name: bound, f"{name}_is_text": isinstance(value, str) and bound is not value}
            with self._store.file.reading() as connection:
                rows = connection.execute(statement, parameters).fetchall()
            for row in map(JobRow._make, rows[: wanted - 1]):
                jobs.append(job_of(row, now))
                position = position[0], getattr(row, KEYS[state]), row.id
            if len(rows) == wanted:
                if len(jobs) < limit:
                    continue
                return jobs, write_place(position)
            following = next_priority(state, position)
            if following is None:
                return jobs, None
            position = following

    @accept_any_text
    def _stats(self, queues: Sequence[str] | None) -> Sequence[QueueStats]:
        # None = every queue that has jobs, was enqueued to, or was paused.
        with self._store.file.reading() as connection:
            if queues is None:
                found = connection.execute(self._store.statements.known_queues)
                queues = [name for (name,) in found if is_possible_id(name)]  # other names cannot be passed to any call
            paused = {name for (name,) in connection.execute(self._store.statements.paused)}
        return [self._numbers(name, paused=name in paused) for name in sorted(queues)]

    def ping(self) -> None:
        """See `Backend.ping`."""
        with self._store.file.reading() as connection:
            connection.execute("SELECT 1").fetchone()

    def _numbers(self, queue: str, *, paused: bool) -> QueueStats:
        now = self._store.now()
        found = {}
        with self._store.file.reading() as connection:
            for state, statement in self._store.statements.counts.items():
                cap = 2 * CAP if state is JobState.SCHEDULED else CAP
                (found[state],) = connection.execute(statement, {"queue": queue, "now": now, "cap": cap}).fetchone()
            (oldest,) = connection.execute(self._store.statements.oldest_ready, {"queue": queue, "now": now}).fetchone()
        return queue_stats(queue, paused=paused, found=found, oldest=None if oldest is None else now - oldest)


def _as_stored(value: object) -> object:
    # Text that is not UTF-8 was read with surrogates. It is bound as the original bytes.
    is_utf8 = not isinstance(value, str) or value.encode(errors="ignore").decode() == value
    return value if is_utf8 else str(value).encode("utf-8", "surrogateescape")
