"""Times and durations, including extreme ones (guarantees 17 and 18)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from scheduler.errors import ConfigError, InvalidJob
from scheduler.leases import Completion, Failure
from scheduler.limits import MAX_DELAY
from scheduler.states import JobState
from scheduler.testing.harness import LONG, BackendHarness

_PAST = (
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(1901, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(1970, 1, 1, tzinfo=UTC),
)
_FUTURE = (
    datetime(2106, 2, 7, 6, 28, 16, tzinfo=UTC),
    datetime(2500, 1, 1, 0, 0, 0, 123_457, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
)


class _NaiveClock:
    def now(self) -> datetime:
        return datetime(2030, 1, 1)  # noqa: DTZ001 - naive is the point


class TimesContract:
    @pytest.fixture
    def new_york(self) -> Iterator[None]:
        """Set the time zone of the process to New York."""
        if not hasattr(time, "tzset"):
            pytest.skip("this system cannot change a process's time zone")
        before = os.environ.get("TZ")
        os.environ["TZ"] = "America/New_York"
        time.tzset()
        yield
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        time.tzset()

    def test_a_naive_moment_is_refused_and_nothing_stored(self, harness: BackendHarness) -> None:
        with pytest.raises(InvalidJob) as refusal:
            harness.add(run_at=datetime(2030, 1, 1))  # noqa: DTZ001 - naive is the point
        assert refusal.value.field == "run_at"
        assert not any(harness.counts().values())

    def test_a_clock_that_does_not_say_its_zone_is_an_error(self, harness: BackendHarness) -> None:
        if harness.clock is None:
            pytest.skip("this store has its own clock")
        lease = harness.leased()
        backend: Any = harness.backend
        calls: list[Callable[[], object]] = [
            lambda: backend.enqueue([harness.new()]),
            lambda: backend.renew([lease], LONG),
            lambda: backend.complete([Completion(lease=lease)]),
        ]
        backend.clock = _NaiveClock()
        try:
            for call in calls:
                with pytest.raises(ConfigError) as refusal:
                    call()
                assert refusal.value.field == "clock"
        finally:
            backend.clock = harness.clock
        assert harness.job(lease.job.id) == lease.job

    def test_a_clock_near_the_last_year_ends_delays_and_leases_there(self, harness: BackendHarness) -> None:
        if harness.clock is None:
            pytest.skip("this store has its own clock")
        harness.clock.set(datetime(9999, 12, 31, 12, tzinfo=UTC))
        job = harness.add(delay=2 * 86_400.0)
        assert (job.state, job.run_at.year) == (JobState.SCHEDULED, 9999)
        assert harness.job(job.id).run_at == job.run_at
        harness.add()
        lease = harness.lease_one(duration=86_000.0)
        assert lease.expires_at.year == 9999
        assert not harness.backend.renew([lease], 86_000.0).refused
        assert not harness.backend.retry([Failure(lease=lease, delay=2 * 86_400.0)])
        assert harness.state(lease.job.id) is JobState.RETRY_WAIT
        assert len(harness.listed(JobState.SCHEDULED)) == 1

    def test_one_instant_written_in_three_zones_is_stored_as_one(self, harness: BackendHarness) -> None:
        instant = datetime(2040, 6, 1, 12, 0, 0, 123_456, tzinfo=UTC)
        zones = [UTC, timezone(timedelta(hours=-4)), timezone(timedelta(hours=5, minutes=45))]
        jobs = [harness.job(harness.add(run_at=instant.astimezone(zone)).id) for zone in zones]
        assert [job.run_at for job in jobs] == [instant] * 3
        assert [(job.run_at.utcoffset(), job.created_at.utcoffset()) for job in jobs] == [(timedelta(0),) * 2] * 3

    @pytest.mark.usefixtures("new_york")
    def test_the_time_zone_of_the_process_has_no_effect(self, harness: BackendHarness) -> None:
        instant = datetime(2040, 6, 1, 12, tzinfo=UTC)
        assert harness.job(harness.add(run_at=instant).id).run_at == instant
        job = harness.add(delay=harness.span)
        harness.advance(harness.span)
        lease = harness.lease_one()
        assert lease.job.id == job.id
        assert timedelta(0) < lease.expires_at - lease.job.created_at < timedelta(seconds=2 * LONG)

    @pytest.mark.parametrize("moment", _PAST, ids=str)
    def test_the_past_is_due_now_and_kept_as_it_was_asked_for(self, harness: BackendHarness, moment: datetime) -> None:
        job = harness.add(run_at=moment)
        lease = harness.lease_one()
        assert (lease.job.id, lease.job.run_at) == (job.id, moment)
        harness.backend.retry([Failure(lease=lease)])
        assert harness.lease_one().job.run_at == moment

    @pytest.mark.parametrize("moment", _FUTURE, ids=str)
    def test_a_job_in_the_far_future_does_not_delay_others(self, harness: BackendHarness, moment: datetime) -> None:
        job = harness.add(run_at=moment, priority=0)
        assert (job.state, harness.job(job.id).run_at) == (JobState.SCHEDULED, moment)
        near = [harness.add().id, harness.add(delay=harness.span).id]
        harness.advance(harness.span)
        assert {lease.job.id for lease in harness.lease()} == set(near)
        assert [each.id for each in harness.listed(JobState.SCHEDULED)] == [job.id]
        assert harness.backend.cancel(harness.queue, [job.id])[0].moved

    def test_normal_jobs_run_among_all_extreme_ones(self, harness: BackendHarness) -> None:
        harness.enqueue(
            *(harness.new(run_at=moment) for moment in (*_FUTURE, *_PAST)), harness.new(), harness.new(delay=MAX_DELAY)
        )
        assert len(harness.lease()) == len(_PAST) + 1
        next_due = harness.promote().next_due
        assert next_due is not None
        assert next_due > LONG

    @pytest.mark.parametrize("delay", [-1, -1e9, 1e12, 1e30, 10**400, float("nan"), float("inf"), True, "1"], ids=str)
    def test_an_impossible_delay_is_refused_and_nothing_stored(self, harness: BackendHarness, delay: object) -> None:
        with pytest.raises(InvalidJob) as refusal:
            harness.add(delay=delay)
        assert refusal.value.field == "delay"
        assert not any(harness.counts().values())

    def test_the_longest_delays_are_taken(self, harness: BackendHarness) -> None:
        job = harness.add(delay=MAX_DELAY)
        assert abs(job.run_at - job.created_at - timedelta(seconds=MAX_DELAY)) <= timedelta(milliseconds=1)
        lease = harness.leased()
        assert not harness.backend.retry([Failure(lease=lease, delay=MAX_DELAY)])
        due_at = harness.job(lease.job.id).due_at
        assert due_at is not None
        assert due_at - job.created_at > timedelta(days=36_500)

    def test_the_longest_and_the_shortest_lease_are_taken(self, harness: BackendHarness) -> None:
        year = harness.leased(366 * 86_400.0)
        assert not harness.backend.renew([year], 366 * 86_400.0).refused
        brief = harness.leased(0.001)
        harness.advance(harness.span)
        assert harness.recover() == (1, 0)
        assert harness.state(year.job.id) is JobState.LEASED
        assert harness.state(brief.job.id) is JobState.READY

    def test_no_job_starts_before_its_run_at_by_a_microsecond(self, harness: BackendHarness) -> None:
        if not harness.clock:
            pytest.skip("needs a manual clock")
        moment = harness.clock.now() + timedelta(seconds=1, microseconds=1_501)
        job = harness.add(run_at=moment)
        assert job.run_at == moment
        harness.clock.set(moment - timedelta(microseconds=1))
        assert harness.lease() == []
        # A store that counts milliseconds rounds up, so the job may start one millisecond later.
        harness.clock.set(moment + timedelta(milliseconds=1))
        assert len(harness.lease()) == 1

    def test_a_clock_that_is_set_back_loses_nothing(self, harness: BackendHarness) -> None:
        if not harness.clock:
            pytest.skip("needs a manual clock")
        held = harness.leased(harness.span)
        waiting = [harness.add().id, harness.add(delay=harness.span).id]
        harness.clock.advance(-LONG)
        assert not harness.backend.complete([Completion(lease=held)])
        later = harness.add(delay=harness.span)
        harness.recover()
        harness.advance(2 * LONG)
        assert {lease.job.id for lease in harness.lease()} == {*waiting, later.id}
