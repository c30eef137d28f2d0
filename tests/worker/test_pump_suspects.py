"""Jobs whose workers have died twice or more: one at a time, and nothing is leased while it may kill its process."""

from __future__ import annotations

import pytest

from scheduler.leases import Failure, Lease
from scheduler.worker import inflight as module
from scheduler.worker.outcome import Verdict
from scheduler.worker.pump import set_apart
from worker.test_inflight import Table, done, some


def take(table: Table, leases: list[Lease]) -> list[Lease]:
    """Take *leases* in as the pump does; return those that are put back."""
    kept, apart = set_apart(table, leases)
    table.take_in(kept)
    return [outcome.lease for outcome in apart]


def test_two_jobs_that_may_kill_the_process_are_not_held_together() -> None:
    table = Table(concurrency=4)
    leases = [*some(1, crashes=2), *some(1, crashes=5), *some(1, crashes=1), *some(1)]
    kept, apart = set_apart(table, leases)
    assert [(outcome.verdict, outcome.lease) for outcome in apart] == [(Verdict.RETRY, leases[1])]
    order = apart[0].request
    assert isinstance(order, Failure)
    assert (order.counted, order.error) == (False, None)
    assert 0.1 <= order.delay <= 0.3
    assert kept == [leases[0], leases[2], leases[3]]


def test_the_delay_is_jittered() -> None:
    table = Table(concurrency=4)
    take(table, some(1, crashes=2))
    _, apart = set_apart(table, some(100, crashes=2))
    delays = {outcome.request.delay for outcome in apart if isinstance(outcome.request, Failure)}
    assert len(delays) > 90


@pytest.mark.parametrize("lost", [True, False])
def test_the_next_one_is_taken_when_the_handler_of_the_first_has_returned(*, lost: bool) -> None:
    """Its thread may kill the process as long as it runs, even if another worker holds the job by then."""
    table = Table(concurrency=4)
    first = some(1, crashes=2)
    assert take(table, first) == []
    row = table.start()
    if lost:
        table.mark_lost(first)
    second = some(1, crashes=2)
    assert take(table, second) == second
    table.finish(row, done(row))
    assert take(table, some(1, crashes=2)) == []
    assert len(table._buffered) == 1


def test_what_a_repeated_call_returns_is_kept_although_it_is_held_already() -> None:
    table = Table(concurrency=4)
    leases = some(1, crashes=2)
    take(table, leases)
    assert take(table, leases) == []
    table.start()
    assert take(table, leases) == []
    assert table.held == 1


def test_nothing_is_to_be_leased_while_one_is_about_to_begin_or_has_just_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lease call that is under way when the process dies would count a crash against what it takes."""
    table = Table(concurrency=4)
    take(table, some(3))
    table.start()
    assert table.trial_left() == 0.0
    take(table, some(1, crashes=2))
    assert table.trial_left() > 0.0
    table.start()
    table.start()
    row = table.start()
    assert row.lease.job.crashes == 2
    assert table.trial_left() > 0.0
    monkeypatch.setattr(module, "_TRIAL", 0.0)
    assert table.trial_left() == 0.0
    monkeypatch.undo()
    table.finish(row, done(row))
    assert table.trial_left() == 0.0
