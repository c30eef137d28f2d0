"""A job whose type no handler knows is neither lost nor looped (guarantee 26); here without threads."""

from __future__ import annotations

from datetime import timedelta

from scheduler.jobs import ErrorDetail, ErrorRecord
from scheduler.leases import Failure, Lease
from scheduler.worker.outcome import Outcome, Verdict
from scheduler.worker.runner import UNKNOWN_TYPE_WAITING
from worker.test_context import NOW
from worker.test_runner import a_lease, a_runner

WAITING = ErrorDetail(kind=UNKNOWN_TYPE_WAITING, message="waits")


def met(seconds_ago: float, **fields: object) -> Lease:
    """A lease taken now (it expires in 30 s) of a job that a worker without a handler met so long ago."""
    error = ErrorRecord.of(WAITING, attempt=1, at=NOW - timedelta(seconds=seconds_ago))
    return a_lease(type="unheard.of", errors=(error,), **fields)


def run(lease: Lease, **config: object) -> Outcome:
    runner = a_runner(lambda job, ctx: None, **{"unknown_type_delay": 30.0, "unknown_type_timeout": 3_600.0, **config})  # type: ignore[arg-type]  # by name
    return runner.run(lease, runner.open(lease.job))


def failure(outcome: Outcome) -> Failure:
    assert isinstance(outcome.request, Failure)
    return outcome.request


def test_the_first_meeting_is_recorded_and_uses_no_attempt() -> None:
    outcome = run(a_lease(type="unheard.of", max_retries=0))
    error = failure(outcome).error
    assert error is not None
    assert (outcome.verdict, failure(outcome).counted, error.kind) == (Verdict.RETRY, False, UNKNOWN_TYPE_WAITING)
    assert "'unheard.of'" in error.message


def test_it_waits_at_least_the_delay_each_time() -> None:
    delays = [failure(run(a_lease(type="unheard.of"))).delay for _ in range(200)]
    assert all(30.0 <= delay <= 36.0 for delay in delays)
    assert len(set(delays)) > 100


def test_later_meetings_within_the_patience_record_nothing_more() -> None:
    outcome = run(met(3_599.0))
    assert (outcome.verdict, failure(outcome).counted, failure(outcome).error) == (Verdict.RETRY, False, None)
    assert failure(outcome).delay >= 30.0


def test_when_the_patience_is_over_it_is_dead_for_a_reason_that_names_the_type() -> None:
    outcome = run(met(3_601.0))
    error = failure(outcome).error
    assert error is not None
    assert (outcome.verdict, failure(outcome).counted, error.kind) == (Verdict.BURY, False, "UnknownJobType")
    assert "'unheard.of'" in error.message


def test_no_patience_is_dead_at_the_second_meeting() -> None:
    assert run(a_lease(type="unheard.of"), unknown_type_timeout=0.0).verdict is Verdict.RETRY
    assert run(met(0.0), unknown_type_timeout=0.0).verdict is Verdict.BURY


def test_a_requeue_starts_afresh() -> None:
    """Its last error is then the burial's, not the meeting's."""
    buried = ErrorRecord.of(ErrorDetail(kind="UnknownJobType"), attempt=0, at=NOW - timedelta(days=300))
    waiting = ErrorRecord.of(WAITING, attempt=1, at=NOW - timedelta(days=400))
    outcome = run(a_lease(type="unheard.of", errors=(waiting, buried)))
    error = failure(outcome).error
    assert error is not None
    assert (outcome.verdict, error.kind) == (Verdict.RETRY, UNKNOWN_TYPE_WAITING)


def test_the_longest_delay_stays_one_that_a_store_takes() -> None:
    longest = 100 * 365.25 * 86_400.0
    assert failure(run(a_lease(type="unheard.of"), unknown_type_delay=longest)).delay == longest
