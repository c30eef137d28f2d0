"""Time limits of waits in tests, and a function that waits."""

from __future__ import annotations

import time
from collections.abc import Callable

WAIT_TIMEOUT = 60.0  # seconds for what takes milliseconds, on a loaded machine
BOUND = 10.0  # seconds for a call that a short time-out ends; far above it, far below for ever


def until(is_so: Callable[[], object]) -> None:
    """Wait until *is_so* returns True, and fail if it never does."""
    deadline = time.monotonic() + WAIT_TIMEOUT
    while not is_so():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)
