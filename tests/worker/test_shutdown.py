"""When a run is to end: the nearest of all requests counts, from any thread and in any order."""

from __future__ import annotations

import logging
import math
import signal
import threading
import time
from collections.abc import Callable

from scheduler.config import WorkerConfig
from scheduler.logs import GuardedLogger
from scheduler.worker.shutdown import Shutdown
from scheduler.worker.wake_event import WakeEvent


def a_shutdown(timeout_grace: float, wake: Callable[[], None] = lambda: None) -> Shutdown:
    config = WorkerConfig(timeout_grace=timeout_grace)
    return Shutdown(config, GuardedLogger(logging.getLogger("tests.shutdown")), wake)


def test_nothing_ends_before_it_is_asked_for() -> None:
    shutdown = a_shutdown(1.0)
    assert not shutdown.requested
    assert shutdown.until_cancel == shutdown.until_end == math.inf


def test_the_run_is_woken_once_the_request_is_recorded() -> None:
    seen = []
    shutdown = a_shutdown(1.0, lambda: seen.append((shutdown.requested, shutdown.until_end <= 5.0)))
    shutdown.request(5.0)
    assert seen == [(True, True)]


def test_handlers_are_cancelled_timeout_grace_before_the_end() -> None:
    shutdown = a_shutdown(1.0)
    shutdown.request(100.0)
    assert 98.0 < shutdown.until_cancel <= 99.0
    assert 99.0 < shutdown.until_end <= 100.0


def test_of_a_short_time_only_a_quarter_is_kept_for_cancelled_handlers() -> None:
    shutdown = a_shutdown(10.0)
    shutdown.request(8.0)
    assert 5.0 < shutdown.until_cancel <= 6.0


def test_a_later_request_only_brings_the_end_nearer() -> None:
    shutdown = a_shutdown(1.0)
    shutdown.request(50.0)
    shutdown.request(500.0)
    assert shutdown.until_end <= 50.0
    shutdown.request(5.0)
    assert shutdown.until_end <= 5.0
    assert shutdown.until_cancel <= 4.0


def test_no_time_at_all_is_over_at_once_and_never_negative() -> None:
    shutdown = a_shutdown(1.0)
    shutdown.request(0.0)
    assert (shutdown.until_cancel, shutdown.until_end) == (0.0, 0.0)


def test_an_endless_stop_can_be_shortened() -> None:
    shutdown = a_shutdown(1.0)
    shutdown.request(math.inf)
    assert shutdown.requested
    assert shutdown.until_cancel == shutdown.until_end == math.inf
    shutdown.request(3.0)
    assert shutdown.until_end <= 3.0


def test_the_shortest_of_requests_from_many_threads_and_signals_counts() -> None:
    shutdown = a_shutdown(1.0, WakeEvent().set)

    def ask_often() -> None:
        for number in range(300):
            shutdown.request(30.0 + number)

    before = signal.signal(signal.SIGALRM, lambda *_: shutdown.request(20.0))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        threads = [threading.Thread(target=ask_often, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        end = time.monotonic() + 10.0
        while len(shutdown._requests) < 1_203 and time.monotonic() < end:
            shutdown.request(40.0)
        for thread in threads:
            thread.join()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert shutdown.until_end <= 20.0
