"""Functions for tests of waiters. Each wait has a time limit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import pytest

from scheduler.abilities import Waiter, WakeReason, Wakeups
from scheduler.backend import Backend

WAIT_TIMEOUT = 20.0  # seconds for a wake-up on a loaded machine; normally it takes milliseconds


def waiter_on(backend: Backend, queues: Sequence[str]) -> Waiter:
    """Return a waiter of *backend*, or skip the test if it offers none."""
    if not isinstance(backend, Wakeups):
        pytest.skip(f"{type(backend).__name__} does not offer Wakeups")
    return backend.waiter(queues)


def quieten(waiter: Waiter) -> None:
    """Wait until *waiter* is connected and idle, at most 20 waits, since it may wake up spuriously."""
    for _ in range(20):
        if not waiter.wait(0.2):
            return


def woken(waiter: Waiter, reason: WakeReason = WakeReason.JOBS_READY) -> bool:
    """Return True if a wait returns *reason* within `WAIT_TIMEOUT`. Spurious wake-ups before it are allowed."""
    deadline = time.monotonic() + WAIT_TIMEOUT
    while (left := deadline - time.monotonic()) > 0.0:
        if reason in waiter.wait(left):
            return True
    return False


def wakes(waiter: Waiter, act: Callable[[], object], reason: WakeReason = WakeReason.JOBS_READY) -> bool:
    """Return True if *act* wakes a thread that is already waiting, with this *reason*."""
    woke = threading.Event()
    entered = threading.Event()

    def wait() -> None:
        entered.set()
        if woken(waiter, reason):
            woke.set()

    thread = threading.Thread(target=wait, name="contract-waiter")
    thread.start()
    entered.wait(WAIT_TIMEOUT)
    act()
    thread.join(2 * WAIT_TIMEOUT)
    return woke.is_set()


def returns(wait: Callable[[], object], end: Callable[[], None]) -> bool:
    """Return True if calling *end* ends *wait*, which another thread has started."""
    entered = threading.Event()

    def run() -> None:
        entered.set()
        wait()

    thread = threading.Thread(target=run, name="contract-waiter", daemon=True)  # so that the test ends even if it hangs
    thread.start()
    entered.wait(WAIT_TIMEOUT)
    thread.join(0.05)  # most likely it is waiting now; if not, *end* must also end the next wait
    end()
    thread.join(WAIT_TIMEOUT)
    return not thread.is_alive()
