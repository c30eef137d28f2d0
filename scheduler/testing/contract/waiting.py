"""How a test waits for a waiter: on events, each with a bound."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import pytest

from scheduler.abilities import Waiter, WakeReason, Wakeups
from scheduler.backend import Backend

WAIT_TIMEOUT = 20.0  # seconds that a wake-up may take on a loaded machine; it takes milliseconds


def waiter_on(backend: Backend, queues: Sequence[str]) -> Waiter:
    """A waiter of *backend*; the test is skipped where it offers none."""
    if not isinstance(backend, Wakeups):
        pytest.skip(f"{type(backend).__name__} does not offer Wakeups")
    return backend.waiter(queues)


def quieten(waiter: Waiter) -> None:
    """Connect it, and take in what has happened until now. Bounded, since it may wake up spuriously."""
    for _ in range(20):
        if not waiter.wait(0.2):
            return


def woken(waiter: Waiter, reason: WakeReason = WakeReason.JOBS_READY) -> bool:
    """Return True if a wait returns this *reason* well before its time-out. It may wake up spuriously before that."""
    deadline = time.monotonic() + WAIT_TIMEOUT
    while (left := deadline - time.monotonic()) > 0.0:
        if reason in waiter.wait(left):
            return True
    return False


def wakes(waiter: Waiter, act: Callable[[], object], reason: WakeReason = WakeReason.JOBS_READY) -> bool:
    """Whether *act* wakes a thread that waits already with this *reason*."""
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
    """Whether *end*, called here, ends *wait*, which a thread has begun."""
    entered = threading.Event()

    def run() -> None:
        entered.set()
        wait()

    thread = threading.Thread(
        target=run, name="contract-waiter", daemon=True
    )  # if it hangs, the test ends nevertheless
    thread.start()
    entered.wait(WAIT_TIMEOUT)
    thread.join(0.05)  # most likely it waits by now; if not, the end must hold for the wait to come
    end()
    thread.join(WAIT_TIMEOUT)
    return not thread.is_alive()
