"""A clock that jumps may end leases early and start jobs early. No job is lost, run twice or left waiting."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta, timezone

import pytest

from memory.inside import check_inside
from memory.moves import QUEUE, add, bury, complete, lease, retry
from scheduler.errors import ConfigError
from scheduler.queues import Retention
from scheduler.states import JobState
from scheduler.testing import ManualClock
from scheduler_backends.memory import MemoryBackend

_YEAR = 366 * 86_400.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def backend(clock: ManualClock) -> MemoryBackend:
    return MemoryBackend(clock=clock, retention=Retention(succeeded=60.0))


def test_a_lease_taken_before_the_clock_was_set_back_ends_after_its_duration(
    backend: MemoryBackend, clock: ManualClock
) -> None:
    """Otherwise the jobs of a dead worker would wait until the wrong time comes again."""
    add(backend, 3)
    lease(backend, 3, duration=30.0)
    clock.advance(-20 * _YEAR)
    assert backend.recover_expired([QUEUE], 10).next_expiry == 30.0
    clock.advance(29.0)
    assert backend.recover_expired([QUEUE], 10).ready == 0
    clock.advance(1.0)
    assert backend.recover_expired([QUEUE], 10).ready == 3


def test_the_holder_of_such_a_lease_loses_nothing(backend: MemoryBackend, clock: ManualClock) -> None:
    add(backend)
    held = lease(backend)
    clock.advance(-_YEAR)
    assert not backend.renew(held, 30.0).refused
    clock.advance(29.0)
    assert backend.recover_expired([QUEUE], 10).ready == 0
    assert not complete(backend, held)


def test_a_retry_waits_no_longer_than_its_delay_when_the_clock_is_set_back(
    backend: MemoryBackend, clock: ManualClock
) -> None:
    add(backend)
    retry(backend, lease(backend), 10.0)
    waiter = backend.waiter([QUEUE])
    clock.advance(-20 * _YEAR)
    assert backend.promote_due([QUEUE], 10).next_due == 10.0
    assert waiter.wait(0.0), "the next due time is earlier than promote_due said"
    clock.advance(10.0)
    assert backend.promote_due([QUEUE], 10).moved == 1


def test_a_job_for_a_certain_moment_waits_for_that_moment(backend: MemoryBackend, clock: ManualClock) -> None:
    run_at = clock.now() + timedelta(seconds=60)
    add(backend, run_at=run_at)
    clock.advance(-3_600.0)
    assert backend.promote_due([QUEUE], 10).next_due == 3_660.0
    clock.set(run_at)
    assert backend.promote_due([QUEUE], 10).moved == 1


def test_a_little_backwards_changes_no_lease(backend: MemoryBackend, clock: ManualClock) -> None:
    """Time servers set clocks back by milliseconds all day."""
    add(backend)
    (held,) = lease(backend)
    clock.advance(-0.5)
    backend.ping()
    assert backend.get(QUEUE, [held.job.id])[held.job.id].lease_expires_at == held.expires_at


def test_a_jump_ahead_ends_leases_early_and_loses_no_job(backend: MemoryBackend, clock: ManualClock) -> None:
    add(backend, 3)
    held = lease(backend, 3)
    clock.advance(20 * _YEAR)
    assert backend.recover_expired([QUEUE], 10).ready == 3
    clock.advance(-20 * _YEAR)
    assert list(complete(backend, held)) == list(held)
    assert len(lease(backend, 3)) == 3


def test_an_age_is_never_negative(backend: MemoryBackend, clock: ManualClock) -> None:
    add(backend)
    clock.advance(-60.0)
    assert backend.stats([QUEUE])[0].oldest_ready_age == 0.0


def test_a_job_finished_in_the_future_keeps_no_other_from_being_trimmed(
    backend: MemoryBackend, clock: ManualClock
) -> None:
    add(backend, 2)
    clock.advance(_YEAR)
    complete(backend, lease(backend))
    clock.advance(-_YEAR)
    complete(backend, lease(backend))
    clock.advance(60.0)
    assert backend.trim([QUEUE], 10) == 1


def test_any_zigzag_of_the_clock_leaves_every_job_leasable(backend: MemoryBackend, clock: ManualClock) -> None:
    draw = random.Random(7)
    ids = {each.job.id for each in add(backend, 20)}
    ids |= {each.job.id for each in add(backend, 20, delay=5.0)}
    for _ in range(300):
        clock.advance(draw.choice([-_YEAR, -100.0, -1.5, -0.001, 0.0, 0.001, 1.5, 100.0, _YEAR]))
        backend.promote_due([QUEUE], 5)
        backend.recover_expired([QUEUE], 5)
        held = lease(backend, 5, duration=draw.choice([0.001, 1.0, 1_000.0]))
        draw.choice([retry, bury, lambda *_: None, lambda backend, held: backend.release(held)])(backend, held)
        backend.requeue(QUEUE, list(ids))
        check_inside(backend)
    clock.set(datetime(3000, 1, 1, tzinfo=UTC))
    backend.recover_expired([QUEUE], 1_000)
    backend.promote_due([QUEUE], 1_000)
    backend.requeue(QUEUE, list(ids))
    assert {each.job.id for each in lease(backend, 1_000)} == ids


@pytest.mark.parametrize("moment", [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)])
def test_the_ends_of_time_are_moments_too(backend: MemoryBackend, clock: ManualClock, moment: datetime) -> None:
    clock.set(moment)
    add(backend)
    add(backend, delay=1e9)
    held = lease(backend, 2, duration=_YEAR)
    assert not backend.renew(held, _YEAR).refused
    backend.recover_expired([QUEUE], 10)
    backend.promote_due([QUEUE], 10)
    retry(backend, held[:1], 1e9)
    complete(backend, held)  # at the end of time every lease has expired as soon as it is taken
    backend.trim([QUEUE], 10)
    assert backend.stats([QUEUE])[0].counts[JobState.LEASED] == 0
    check_inside(backend)


class _Clock:
    def __init__(self, *moments: object) -> None:
        self.moments = list(moments)

    def now(self) -> datetime:
        moment = self.moments.pop(0)
        if isinstance(moment, BaseException):
            raise moment
        return moment  # type: ignore[return-value]


def test_a_clock_in_another_zone_is_read_in_utc(backend: MemoryBackend) -> None:
    backend.clock = _Clock(datetime(2030, 6, 1, 12, tzinfo=timezone(timedelta(hours=-4))))
    job = add(backend)[0].job
    assert job.created_at == datetime(2030, 6, 1, 16, tzinfo=UTC)
    assert job.created_at.utcoffset() == timedelta(0)


@pytest.mark.parametrize("moment", [datetime(2030, 1, 1), None, 17.0])  # noqa: DTZ001 - a naive one is the point
def test_a_clock_that_returns_no_moment_is_named_and_nothing_stored(backend: MemoryBackend, moment: object) -> None:
    backend.clock = _Clock(moment)
    with pytest.raises(ConfigError) as refusal:
        add(backend)
    assert refusal.value.field == "clock"
    backend.clock = None
    assert backend.stats() == []


def test_a_clock_that_raises_leaves_the_store_as_it_was(backend: MemoryBackend) -> None:
    backend.clock = _Clock(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        add(backend)
    backend.clock = None
    assert backend.stats() == []
    add(backend)
    assert len(lease(backend)) == 1


def test_without_a_clock_it_is_the_machine_s(backend: MemoryBackend) -> None:
    backend.clock = None
    before = datetime.now(UTC)
    created_at = add(backend)[0].job.created_at
    assert before <= created_at <= datetime.now(UTC)
