"""What one life of a plain job costs, the same on both SQL stores: each store's test class says how it is counted."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar

import pytest

from scheduler.identity import new_token
from scheduler.jobs import ErrorDetail, NewJob
from scheduler.leases import Completion, Failure
from scheduler.states import JobState
from scheduler_backends.sql.columns import COLUMNS, UNREAD

_ERROR = ErrorDetail(kind="ValueError", message="why")
_UNREAD = re.compile(rf"\b({'|'.join(UNREAD)})\b")


def leased(backend):
    (lease,) = backend.lease(["default"], token=new_token(), worker_id="w", duration=30.0, limit=1)
    return lease


def a_life(backend, move: Callable[..., object] = lambda _, call: call()):
    """Each move of a job, twice in all: *move* is given its name, and does it."""

    def lease():
        return move("lease", lambda: leased(backend))

    move("enqueue", lambda: backend.enqueue([NewJob(type="mail")]))
    move("promote", lambda: backend.promote_due(["default"], 100))
    held = lease()
    move("renew", lambda: backend.renew([held], 30.0))
    move("retry", lambda: backend.retry([Failure(lease=held, delay=0.0, error=_ERROR)]))
    held = lease()
    move("release", lambda: backend.release([held]))
    held = lease()
    move("complete", lambda: backend.complete([Completion(lease=held)]))
    backend.enqueue([NewJob(type="mail")])
    held = lease()
    move("bury", lambda: backend.bury([Failure(lease=held, error=_ERROR)]))


class PlainJobCosts:
    """
    Fixtures to be overridden: `backend`; `statements`, a function that calls another and returns the texts of the
    statements meanwhile; `bytes_for_unread`, one that returns how many bytes a row has because of `UNREAD`.
    """

    moves: ClassVar[dict[str, int]]
    """The statements of each."""

    bytes_of_unread: ClassVar[int]

    def test_the_statements_are_counted_and_know_of_no_column_but_a_plain_jobs(self, backend, statements):
        a_life(backend)  # it also opens the connections, and enters the queue
        found: dict[str, set[int]] = {}

        def move(name, call):
            results = []
            texts = statements(lambda: results.append(call()))
            assert not [text for text in texts if _UNREAD.search(text)], texts
            found.setdefault(name, set()).add(len(texts))
            return results[0]

        a_life(backend, move)
        assert found == {name: {number} for name, number in self.moves.items()}

    def test_the_further_columns_are_empty_and_take_no_room(self, backend, row, bytes_for_unread):
        a_life(backend)
        backend.enqueue([NewJob(type="mail", id="bad", payload=b"x" * 200, metadata={"a": "b"})])
        assert list(row()) == [*COLUMNS, *UNREAD]
        assert {row()[name] for name in UNREAD} == {None}
        assert bytes_for_unread() == self.bytes_of_unread

    @pytest.mark.parametrize("state", [JobState.READY, JobState.LEASED, JobState.DEAD])
    def test_a_nonce_is_one_of_the_last_four(self, backend, spoil, state):
        job = NewJob(type="mail", id="bad")
        backend.enqueue([job])
        if state is not JobState.READY:
            held = leased(backend)
        if state is JobState.DEAD:
            backend.bury([Failure(lease=held)])
        others = [NewJob(type="mail").nonce for _ in range(3)]
        for place in range(4):
            nonces = [*others[:place], job.nonce, *others[place:]]
            spoil(strict=False, nonce=" ".join(nonces))
            assert backend.enqueue([job])[0].is_new
            assert not backend.enqueue([NewJob(type="mail", id="bad")])[0].is_new
        assert backend.get("default", ["bad"])["bad"].state is state


GOOD_ROWS = [
    ("queue", "name, paused, paused_at, paused_until, paused_by, pause_reason, flow, next_key",
     """'q', true, 0, 1, 'ops', 'why', '{"rate": 1}', ''"""),
    ("bucket", "queue, key, tat, held_until", "'q', '', 0, NULL"),
    ("schedule", "name, declared, release, edited, next_tick, last_tick", """'n', '{"cron": "x"}', 1, '{}', 0, NULL"""),
    ("worker", "id, card, seen_at, expires_at", """'w', '{"host": "h"}', 0, 1"""),
    ("fence", "resource, fence", "'account-17', 1"),
    ("done", "queue, id, done_at", "'q', '1', 0"),
]  # fmt: skip

BAD_ROWS = [
    ("queue", "name, paused_until", f"'q', {2**62}"),
    ("queue", "name, flow", "'q', '[1]'"),
    ("bucket", "queue, key, tat", f"'q', '', {2**62}"),
    ("bucket", "queue, key, held_until", f"'q', '', {-(2**63)}"),
    ("schedule", "name, declared, release", "'n', '[]', 1"),
    ("schedule", "name, declared, release, edited", "'n', '{}', 1, '5'"),
    ("schedule", "name, declared, release, next_tick", f"'n', '{{}}', 1, {2**62}"),
    ("worker", "id, card, seen_at, expires_at", "'w', '5', 0, 1"),
    ("worker", "id, card, seen_at, expires_at", f"'w', '{{}}', 0, {2**62}"),
    ("done", "queue, id, done_at", f"'q', '1', {2**62}"),
]


class FurtherTables:
    """Fixtures to be overridden: `insert`, which takes a table, columns and values; `refusal`, a database's error."""

    @pytest.mark.parametrize(("table", "columns", "values"), GOOD_ROWS, ids=lambda value: value.partition(",")[0])
    def test_a_row_is_taken_once(self, insert, refusal, table, columns, values):
        insert(table, columns, values)
        with pytest.raises(refusal):
            insert(table, columns, values)

    @pytest.mark.parametrize(("table", "columns", "values"), BAD_ROWS)
    def test_what_cannot_be_read_is_refused(self, insert, refusal, table, columns, values):
        with pytest.raises(refusal):
            insert(table, columns, values)
