"""Rows that other programs damaged, the same on both SQL stores: each store's test class says how one is written."""

from __future__ import annotations

import logging

import pytest

from scheduler.identity import new_token
from scheduler.jobs import UNREADABLE, NewJob
from scheduler.leases import Completion, Failure
from scheduler.queues import Retention
from scheduler.states import JobState

_SECRET = "sesame-1f0c"  # noqa: S105 - what must not reach a log


def lease(backend, limit=10, duration=60.0):
    return list(backend.lease(["default"], token=new_token(), worker_id="w", duration=duration, limit=limit))


def add(backend, *ids, **fields):
    backend.enqueue([NewJob(type="t", id=one, **fields) for one in ids])


def ids(leases):
    return sorted(one.job.id for one in leases)


def job(backend, id="bad"):
    return backend.get("default", [id])[id]


def counts(backend):
    (row,) = backend.stats(["default"])
    return {state: count for state, count in row.counts.items() if count}


class RowDamage:
    """
    Fixtures to be overridden: `backend`; `new_backend`, which opens another with arguments; `spoil`, a callable that
    sets columns of the job "bad" past the database's checks; `row`, one that returns it; `checks`, one that tries the
    same as `spoil` and returns whether the database refuses it.
    """

    @pytest.mark.parametrize(
        ("column", "value"),
        [
            ("state", 9),
            ("priority", 77),
            ("priority", -5),
            ("attempts", -1),
            ("crashes", -1),
            ("max_retries", -1),
            ("max_retries", 1_000_001),
            ("timeout", 0.0),
            ("timeout", float("inf")),
            ("timeout", float("nan")),
            ("run_at", 2**62),
            ("due_at", 2**62),
            ("due_at", -(2**63)),
            ("created_at", 2**62),
            ("finished_at", 2**62),
            ("lease_until", 2**62),
            ("state", 2),  # without a lease
            ("state", 5),  # without a moment
            ("type", ""),
            ("id", "x" * 201),
            ("id", "a\nb"),
            ("id", "a\x7fb"),
            ("type", "a\x01b"),
            ("queue", "a\tb"),
            ("retry_policy", "[1]"),
            ("metadata", "[1]"),
            ("errors", "{}"),
        ],
    )
    def test_the_database_refuses_what_it_can(self, backend, checks, column, value):
        add(backend, "bad")
        assert checks(**{column: value})
        assert ids(lease(backend)) == ["bad"]

    def test_a_state_that_is_none_counts_as_dead_and_is_found_by_recovery(self, backend, spoil):
        add(backend, "bad", "good")
        spoil(state=9)
        assert job(backend).state is JobState.DEAD
        assert job(backend).unreadable == ("state",)
        assert ids(lease(backend)) == ["good"]
        backend.recover_expired(["default"], 100)
        assert counts(backend) == {JobState.LEASED: 1, JobState.DEAD: 1}
        (listed,) = backend.list("default", JobState.DEAD).jobs
        assert listed == job(backend)
        assert listed.last_error.kind == UNREADABLE
        assert "state" in listed.last_error.message
        (answer,) = backend.requeue("default", ["bad"])
        assert answer.moved
        assert ids(lease(backend)) == ["bad"]

    def test_a_job_in_no_state_can_be_requeued_at_once(self, backend, spoil):
        add(backend, "bad")
        spoil(state=-1)
        (answer,) = backend.cancel("default", ["bad"])
        assert (answer.moved, answer.state) == (False, JobState.DEAD)
        (answer,) = backend.requeue("default", ["bad"])
        assert (answer.moved, answer.state) == (True, JobState.READY)
        assert ids(lease(backend)) == ["bad"]

    def test_a_due_time_that_never_comes_is_found_by_recovery(self, backend, spoil):
        add(backend, "bad", "good")
        spoil(due_at=2**62)
        assert job(backend).unreadable == ("due_at",)
        assert counts(backend) == {JobState.SCHEDULED: 1, JobState.READY: 1}
        backend.recover_expired(["default"], 100)
        assert job(backend).state is JobState.DEAD
        assert job(backend).last_error.kind == UNREADABLE
        backend.requeue("default", ["bad"])
        assert ids(lease(backend)) == ["bad", "good"]

    @pytest.mark.parametrize("until", [None, 2**62, -(2**63)])
    def test_a_lease_whose_end_is_none_is_recovered(self, backend, spoil, until):
        add(backend, "bad", "good")
        held = lease(backend, duration=3_600.0)
        spoil(lease_until=until)
        assert job(backend).state is JobState.LEASED
        assert "lease_expires_at" in job(backend).unreadable
        assert backend.recover_expired(["default"], 100).ready == 1
        assert ids(lease(backend)) == ["bad"]
        assert [one.job.id for one in backend.complete([Completion(lease=one) for one in held])] == ["bad"]

    def test_a_finished_job_without_a_moment_is_listed_once_recovery_has_seen_it(self, backend, spoil):
        add(backend, "bad")
        (held,) = lease(backend)
        backend.bury([Failure(lease=held)])
        spoil(finished_at=None)
        assert job(backend).unreadable == ("finished_at",)
        backend.recover_expired(["default"], 100)
        assert job(backend).unreadable == ()
        assert [one.id for one in backend.list("default", JobState.DEAD).jobs] == ["bad"]
        assert backend.purge("default", JobState.DEAD, 10) == 1

    @pytest.mark.parametrize("counter", ["attempts", "crashes"])
    def test_a_counter_at_its_end_breaks_no_batch(self, backend, spoil, counter):
        add(backend, "bad", "good")
        spoil(**{counter: 2**31 - 1})
        assert ids(lease(backend, duration=0.001)) == ["bad", "good"]
        recovered = 0
        while recovered < 2:
            recovery = backend.recover_expired(["default"], 10)
            recovered += recovery.ready + recovery.dead
        held = lease(backend)
        assert "good" in ids(held)
        assert backend.retry([Failure(lease=one) for one in held]) == []

    def test_an_age_before_all_time_breaks_no_count(self, backend, spoil):
        add(backend, "bad")
        spoil(due_at=-(2**63))
        (row,) = backend.stats(["default"])
        assert row.oldest_ready_age > 0.0
        assert ids(lease(backend)) == ["bad"]

    def test_the_row_stays_as_it_was_but_for_its_end(self, backend, spoil, row):
        add(backend, "bad", payload=b"data", metadata={"a": "b"})
        spoil(retry_policy='{"curve": "fibonacci"}', errors='{"a": 1}')
        before = row()
        assert lease(backend) == []
        after = row()
        changed = {name for name in before if before[name] != after[name]}
        assert changed == {"state", "finished_at", "attempts"}
        assert after["attempts"] == 1

    def test_what_became_readable_runs_after_a_requeue(self, backend, spoil):
        """Such as by a newer release, which knows the curve."""
        add(backend, "bad")
        spoil(retry_policy='{"curve": "fibonacci"}')
        assert lease(backend) == []
        spoil(retry_policy='{"curve": "exponential"}')
        assert job(backend).unreadable == ()
        backend.requeue("default", ["bad"])
        (held,) = lease(backend)
        assert (held.job.attempts, held.job.errors) == (1, ())

    def test_many_in_front_of_a_good_job_hide_it_from_no_call(self, backend, spoil):
        """A lease call may be empty only if no job can be leased."""
        add(backend, *(f"bad{number}" for number in range(25)))
        spoil(all_jobs=True, metadata="[1]")
        add(backend, "good", delay=0.001)
        while backend.promote_due(["default"], 100).next_due is not None:
            pass
        assert ids(lease(backend, limit=10)) == ["good"]
        assert counts(backend)[JobState.DEAD] >= 10

    def test_they_are_kept_until_trimmed_where_the_dead_are_not(self, new_backend, spoil):
        backend = new_backend(retention=Retention(dead=0.0))
        add(backend, "bad")
        spoil(metadata="[1]")
        assert lease(backend) == []
        assert job(backend).state is JobState.DEAD
        while not backend.trim(["default"], 10):
            pass
        assert not backend.get("default", ["bad"])

    def test_one_line_tells_of_them(self, backend, spoil, caplog):
        add(backend, *(f"bad{number}" for number in range(3)), payload=_SECRET.encode(), metadata={"a": _SECRET})
        spoil(all_jobs=True, retry_policy=f'{{"curve": "{_SECRET}"}}')
        for _ in range(3):
            assert lease(backend, limit=1) == []
        (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
        assert "retry_policy" in record.getMessage()
        assert "bad" in record.getMessage()
        assert _SECRET not in caplog.text


UNREAD_GARBAGE = [
    ("key", ""),
    ("key", "x" * 201),
    ("keep", -1.0),
    ("keep", float("inf")),
    ("keep_until", 2**62),
    ("expires_at", -(2**63)),
    ("conflict", -1),
    ("conflict", 8),
    ("window_start", 2**62),
    ("successor", "[1]"),
    ("cancel_requested", "5"),
    ("runs", "{}"),
    ("leased_at", 2**62),
    ("nonce", "x"),
    ("nonce", ""),
]
"""Garbage in columns that nothing reads of a plain job."""


class UnreadDamage:
    """Fixtures as of `RowDamage`."""

    @pytest.mark.parametrize(("column", "value"), UNREAD_GARBAGE)
    def test_the_database_refuses_garbage_in_a_column_that_is_not_read(self, backend, checks, column, value):
        add(backend, "bad")
        assert checks(**{column: value})

    @pytest.mark.parametrize(("column", "value"), UNREAD_GARBAGE)
    def test_garbage_that_nothing_reads_harms_nothing(self, backend, spoil, row, column, value):
        add(backend, "bad", "good")
        spoil(**{column: value})
        held = lease(backend)
        assert ids(held) == ["bad", "good"]
        assert not backend.renew(held, 60.0).refused
        assert not backend.retry([Failure(lease=one, delay=0.0) for one in held])
        held = lease(backend)
        assert not backend.bury([Failure(lease=one) for one in held])
        assert [one.unreadable for one in backend.list("default", JobState.DEAD).jobs] == [(), ()]
        assert all(answer.moved for answer in backend.requeue("default", ["bad", "good"]))
        assert row()[column] is not None
        assert not backend.complete([Completion(lease=one) for one in lease(backend)])
