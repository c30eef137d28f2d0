"""Raising inside a handler's thread: it lands in the handler or nowhere, and never costs the thread."""

from __future__ import annotations

import gc
import random
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue

import pytest

from scheduler.errors import JobInterrupted
from scheduler.worker.interrupt import Interruptible
from worker.stand import SOON


def test_what_returns_or_raises_by_itself_comes_through() -> None:
    assert Interruptible().run(lambda: 7) == (7, None)
    error = SystemExit(3)

    def leave() -> None:
        raise error

    assert Interruptible().run(leave) == (None, error)


def test_a_loop_that_never_looks_is_ended() -> None:
    started = threading.Event()

    def spin() -> None:
        started.set()
        while True:
            pass

    guards: Future[Interruptible] = Future()

    def work() -> BaseException | None:
        guard = Interruptible()
        guards.set_result(guard)
        return guard.run(spin)[1]

    with ThreadPoolExecutor(1) as pool:
        outcome = pool.submit(work)
        assert started.wait(SOON)
        guards.result(SOON).interrupt()
        assert isinstance(outcome.result(SOON), JobInterrupted)
        assert pool.submit(lambda: "the thread lives").result(SOON)


def test_an_interrupt_before_the_run_lands_in_it() -> None:
    guard = Interruptible()
    guard.interrupt()
    ran = []
    result, raised = guard.run(lambda: ran.append(1))
    assert isinstance(raised, JobInterrupted)
    assert (result, ran) == (None, [])


def test_an_interrupt_after_the_run_lands_nowhere() -> None:
    guard = Interruptible()
    assert guard.run(lambda: 1) == (1, None)
    guard.interrupt()
    for _ in range(1_000):
        time.monotonic()


def test_a_second_interrupt_does_nothing() -> None:
    """A handler that cleans up after the first is not interrupted in that."""
    guard = Interruptible()

    def handler() -> str:
        try:
            guard.interrupt()
            for _ in range(1_000):
                time.monotonic()
        except JobInterrupted:
            guard.interrupt()
            for _ in range(1_000):
                time.monotonic()
            return "cleaned up"
        return "not interrupted"

    assert guard.run(handler) == ("cleaned up", None)


def test_a_failed_handler_is_not_kept_alive_by_its_traceback() -> None:
    """No circle of frames: what the handler held is gone as soon as its outcome is, without the collector's help."""

    class Held:
        pass

    gone = []

    def fail() -> None:
        held = Held()
        gone.append(weakref.ref(held))
        raise ValueError

    gc.collect()
    gc.disable()
    try:
        _, raised = Interruptible().run(fail)
        assert isinstance(raised, ValueError)
        del raised
        assert gone[0]() is None
    finally:
        gc.enable()


@pytest.fixture
def _switching_often() -> Iterator[None]:
    """
    Threads take turns every few microseconds, so that interrupts land anywhere.

    But for the collector: what is raised inside a weak reference's callback is printed and lost, by Python's rules.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    gc.disable()
    yield
    gc.enable()
    sys.setswitchinterval(before)


def interrupted_at_random(runs: int, seconds: float) -> tuple[int, int]:
    """So many runs on four threads, each interrupted somewhere around its end; (how many ran, how many were hit)."""
    threads_before = threading.active_count()
    targets: SimpleQueue[Interruptible | None] = SimpleQueue()
    hit = done = 0
    lock = threading.Lock()  # guards hit and done

    def shoot() -> None:
        while (guard := targets.get()) is not None:
            for _ in range(random.randrange(200)):
                pass
            guard.interrupt()

    def one() -> None:
        nonlocal hit, done
        steps, guard = random.randrange(6_000), Interruptible()

        def handler() -> int:
            targets.put(guard)
            total = 0
            for _ in range(steps):
                total += 1
            return total

        result, raised = guard.run(handler)
        with lock:
            done += 1
            hit += raised is not None
        if raised is None:
            assert result == steps
        else:
            assert isinstance(raised, JobInterrupted)
            assert result in (None, steps)

    shooter = threading.Thread(target=shoot)
    shooter.start()
    end = time.monotonic() + seconds
    with ThreadPoolExecutor(4) as pool:
        futures = []
        for number in range(runs):
            futures.append(pool.submit(one))
            if number % 500 == 499:
                for future in futures:
                    future.result(SOON)  # raises what escaped from a run, and times out if a thread was lost
                futures.clear()
                if time.monotonic() > end:
                    break
        threads = [pool.submit(threading.get_ident) for _ in range(100)]
        assert {future.result(SOON) for future in threads}
    targets.put(None)
    shooter.join()
    assert threading.active_count() <= threads_before
    return done, hit


@pytest.mark.usefixtures("_switching_often")
def test_thousands_of_random_interrupts_lose_no_thread() -> None:
    done, hit = interrupted_at_random(10_000, seconds=6.0)
    assert done >= 1_000
    assert 20 < hit < done


@pytest.mark.long
@pytest.mark.usefixtures("_switching_often")
def test_a_hundred_thousand_random_interrupts_lose_no_thread() -> None:
    done, hit = interrupted_at_random(100_000, seconds=90.0)
    assert done == 100_000
    assert 200 < hit < done
