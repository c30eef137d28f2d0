"""Tests of `ManualClock`."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta, timezone

import pytest

from scheduler.errors import SchedulerError
from scheduler.testing import ManualClock


def test_it_stands_still_until_it_is_moved() -> None:
    clock = ManualClock(datetime(2031, 5, 1, tzinfo=UTC))
    assert clock.now() == clock.now() == datetime(2031, 5, 1, tzinfo=UTC)
    assert clock.advance(1.000001) == clock.now() == datetime(2031, 5, 1, 0, 0, 1, 1, tzinfo=UTC)
    clock.advance(-2)
    assert clock.now() == datetime(2031, 4, 30, 23, 59, 59, 1, tzinfo=UTC)
    clock.set(datetime(1969, 1, 1, tzinfo=UTC))
    assert clock.now().year == 1969
    assert "1969" in repr(clock)


def test_it_speaks_utc_whatever_it_is_told_in() -> None:
    clock = ManualClock()
    clock.set(datetime(2031, 1, 1, 12, tzinfo=timezone(timedelta(hours=5))))
    assert (clock.now(), clock.now().tzinfo) == (datetime(2031, 1, 1, 7, tzinfo=UTC), UTC)


def test_a_naive_moment_is_refused() -> None:
    with pytest.raises(SchedulerError):
        ManualClock(datetime(2031, 1, 1))  # noqa: DTZ001 - naive is the point
    with pytest.raises(SchedulerError):
        ManualClock().set(datetime(2031, 1, 1))  # noqa: DTZ001 - naive is the point


def test_no_move_of_many_threads_is_lost() -> None:
    clock = ManualClock()
    start = clock.now()
    threads = [threading.Thread(target=lambda: [clock.advance(1.0) for _ in range(500)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20.0)
    assert clock.now() - start == timedelta(seconds=2_000)
