"""Moments later than others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from scheduler.clock import later

LAST = datetime.max.replace(tzinfo=UTC)


def test_a_moment_is_so_many_seconds_later() -> None:
    assert later(LAST - timedelta(seconds=5), 2.5) == LAST - timedelta(seconds=2.5)


def test_no_moment_is_later_than_the_last() -> None:
    assert later(LAST - timedelta(seconds=5), 6.0) == LAST
