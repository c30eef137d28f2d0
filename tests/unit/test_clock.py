"""The system clock."""

from __future__ import annotations

from datetime import UTC, datetime

from scheduler.clock import SystemClock


def test_the_system_clock_tells_aware_utc() -> None:
    before = datetime.now(UTC)
    now = SystemClock().now()
    assert now.tzinfo is UTC
    assert before <= now <= datetime.now(UTC)
