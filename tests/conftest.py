"""Settings for all tests: the profiles of hypothesis, and a check that no thread of the library is left running."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# For `examples` and `benchmarks`. Last, so that the packages under test are the installed ones, not the checkout's.
sys.path.append(str(Path(__file__).parents[1]))

pytest_plugins = ["pytester", "servers.fixtures"]

settings.register_profile("dev", max_examples=25, stateful_step_count=20, deadline=None)
settings.register_profile("ci", settings.get_profile("ci"), max_examples=100, stateful_step_count=50)
settings.register_profile(
    "nightly", max_examples=2_000, stateful_step_count=100, deadline=None, derandomize=False, print_blob=True
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))

THREADS_END_WITHIN = 10.0  # seconds: a generous bound for a loaded machine, reached only by a failure


def pytest_xdist_auto_num_workers() -> int:
    """One process more than cores: each waits for servers, disks and timers for a third of its time."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give random sequences of moves the time that they take on a loaded machine: each is some thousand calls."""
    for item in items:
        if item.name.startswith("test_any_sequence_of_moves") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(autouse=True)
def _no_thread_left() -> Iterator[None]:
    """Check that every thread of the library that a test started has ended."""
    before = set(threading.enumerate())
    yield
    deadline = time.monotonic() + THREADS_END_WITHIN
    left = []
    for thread in set(threading.enumerate()) - before:
        if thread.name.startswith("scheduler"):
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                left.append(thread.name)
    assert not left, f"threads left behind: {', '.join(sorted(left))}"
