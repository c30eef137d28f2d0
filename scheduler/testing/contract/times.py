"""Moments and durations, the extreme ones included (guarantees 17 and 18)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest

from scheduler.errors import InvalidJob
from scheduler.leases import Completion, Failure
from scheduler.limits import MAX_DELAY
from scheduler.states import JobState
from scheduler.testing.rig import LONG, Rig

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


class TimesContract:
    @pytest.fixture
    def new_york(self) -> Iterator[None]:
        """The process lives in New York."""
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

    def test_a_naive_moment_is_refused_and_nothing_stored(self, rig: Rig) -> None:
        with pytest.raises(InvalidJob) as refusal:
            rig.add(run_at=datetime(2030, 1, 1))  # noqa: DTZ001 - naive is the point
        assert refusal.value.field == "run_at"
        assert not any(rig.counts().values())

    def test_a_clock_near_the_last_year_ends_delays_and_leases_there(self, rig: Rig) -> None:
        if rig.clock is None:
            pytest.skip("this store has its own clock")
        rig.clock.set(datetime(9999, 12, 31, 12, tzinfo=UTC))
        job = rig.add(delay=2 * 86_400.0)
        assert (job.state, job.run_at.year) == (JobState.SCHEDULED, 9999)
        assert rig.job(job.id).run_at == job.run_at
        rig.add()
        lease = rig.lease_one(duration=86_000.0)
        assert lease.expires_at.year == 9999
        assert not rig.backend.renew([lease], 86_000.0).refused
        assert not rig.backend.retry([Failure(lease=lease, delay=2 * 86_400.0)])
        assert rig.state(lease.job.id) is JobState.RETRY_WAIT
        assert len(rig.listed(JobState.SCHEDULED)) == 1

    def test_one_instant_written_in_three_zones_is_stored_as_one(self, rig: Rig) -> None:
        instant = datetime(2040, 6, 1, 12, 0, 0, 123_456, tzinfo=UTC)
        zones = [UTC, timezone(timedelta(hours=-4)), timezone(timedelta(hours=5, minutes=45))]
        jobs = [rig.job(rig.add(run_at=instant.astimezone(zone)).id) for zone in zones]
        assert [job.run_at for job in jobs] == [instant] * 3
        assert [(job.run_at.utcoffset(), job.created_at.utcoffset()) for job in jobs] == [(timedelta(0),) * 2] * 3

    @pytest.mark.usefixtures("new_york")
    def test_the_zone_of_the_process_changes_nothing(self, rig: Rig) -> None:
        instant = datetime(2040, 6, 1, 12, tzinfo=UTC)
        assert rig.job(rig.add(run_at=instant).id).run_at == instant
        job = rig.add(delay=rig.span)
        rig.advance(rig.span)
        lease = rig.lease_one()
        assert lease.job.id == job.id
        assert timedelta(0) < lease.expires_at - lease.job.created_at < timedelta(seconds=2 * LONG)

    @pytest.mark.parametrize("moment", _PAST, ids=str)
    def test_the_past_is_due_now_and_kept_as_it_was_asked_for(self, rig: Rig, moment: datetime) -> None:
        job = rig.add(run_at=moment)
        lease = rig.lease_one()
        assert (lease.job.id, lease.job.run_at) == (job.id, moment)
        rig.backend.retry([Failure(lease=lease)])
        assert rig.lease_one().job.run_at == moment

    @pytest.mark.parametrize("moment", _FUTURE, ids=str)
    def test_the_far_future_waits_and_holds_up_nobody(self, rig: Rig, moment: datetime) -> None:
        job = rig.add(run_at=moment, priority=0)
        assert (job.state, rig.job(job.id).run_at) == (JobState.SCHEDULED, moment)
        near = [rig.add().id, rig.add(delay=rig.span).id]
        rig.advance(rig.span)
        assert {lease.job.id for lease in rig.lease()} == set(near)
        assert [each.id for each in rig.listed(JobState.SCHEDULED)] == [job.id]
        assert rig.backend.cancel(rig.queue, [job.id])[0].moved

    def test_normal_jobs_run_among_all_extreme_ones(self, rig: Rig) -> None:
        rig.enqueue(*(rig.new(run_at=moment) for moment in (*_FUTURE, *_PAST)), rig.new(), rig.new(delay=MAX_DELAY))
        assert len(rig.lease()) == len(_PAST) + 1
        next_due = rig.promote().next_due
        assert next_due is not None
        assert next_due > LONG

    @pytest.mark.parametrize("delay", [-1, -1e9, 1e12, 1e30, 10**400, float("nan"), float("inf"), True, "1"], ids=str)
    def test_an_impossible_delay_is_refused_and_nothing_stored(self, rig: Rig, delay: object) -> None:
        with pytest.raises(InvalidJob) as refusal:
            rig.add(delay=delay)
        assert refusal.value.field == "delay"
        assert not any(rig.counts().values())

    def test_the_longest_delays_are_taken(self, rig: Rig) -> None:
        job = rig.add(delay=MAX_DELAY)
        assert abs(job.run_at - job.created_at - timedelta(seconds=MAX_DELAY)) <= timedelta(milliseconds=1)
        lease = rig.leased()
        assert not rig.backend.retry([Failure(lease=lease, delay=MAX_DELAY)])
        due_at = rig.job(lease.job.id).due_at
        assert due_at is not None
        assert due_at - job.created_at > timedelta(days=36_500)

    def test_the_longest_and_the_shortest_lease_are_taken(self, rig: Rig) -> None:
        year = rig.leased(366 * 86_400.0)
        assert not rig.backend.renew([year], 366 * 86_400.0).refused
        brief = rig.leased(0.001)
        rig.advance(rig.span)
        assert rig.recover() == (1, 0)
        assert rig.state(year.job.id) is JobState.LEASED
        assert rig.state(brief.job.id) is JobState.READY

    def test_no_job_starts_before_its_moment_to_the_microsecond(self, rig: Rig) -> None:
        if not rig.clock:
            pytest.skip("needs a manual clock")
        moment = rig.clock.now() + timedelta(seconds=1, microseconds=1_501)
        job = rig.add(run_at=moment)
        assert job.run_at == moment
        rig.clock.set(moment - timedelta(microseconds=1))
        assert rig.lease() == []
        # A store that counts milliseconds rounds upwards, so it may start one later.
        rig.clock.set(moment + timedelta(milliseconds=1))
        assert len(rig.lease()) == 1

    def test_a_clock_that_is_set_back_loses_nothing(self, rig: Rig) -> None:
        if not rig.clock:
            pytest.skip("needs a manual clock")
        held = rig.leased(rig.span)
        waiting = [rig.add().id, rig.add(delay=rig.span).id]
        rig.clock.advance(-LONG)
        assert not rig.backend.complete([Completion(lease=held)])
        later = rig.add(delay=rig.span)
        rig.recover()
        rig.advance(2 * LONG)
        assert {lease.job.id for lease in rig.lease()} == {*waiting, later.id}
