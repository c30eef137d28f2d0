"""A set is never lost and never piles up; a latch lets every thread through. Both work inside signal handlers."""

from __future__ import annotations

import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from scheduler.worker.wake_event import Latch, WakeEvent
from worker.harness import SOON
from worker.scripts import run_python


def test_a_set_before_the_wait_ends_it() -> None:
    event = WakeEvent()
    event.set()
    assert event.wait(0.0)


def test_a_wait_without_a_set_ends_at_its_timeout() -> None:
    began = time.monotonic()
    assert not WakeEvent().wait(0.02)
    assert time.monotonic() - began >= 0.02


def test_a_timeout_in_the_past_is_no_wait() -> None:
    assert not WakeEvent().wait(-5.0)


def test_many_sets_are_one_and_the_next_wait_finds_none() -> None:
    event = WakeEvent()
    for _ in range(1_000):
        event.set()
    assert event.wait(0.0)
    assert not event.wait(0.0)


def test_sets_of_many_threads_are_one() -> None:
    event = WakeEvent()
    with ThreadPoolExecutor(8) as pool:
        for _ in range(2_000):
            pool.submit(event.set)
    assert event.wait(0.0)
    assert not event.wait(0.0)


def test_an_endless_wait_is_ended_by_a_set() -> None:
    """inf is more than the interpreter's longest wait, and is not refused."""
    event = WakeEvent()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(event.wait, math.inf)
        event.set()
        assert waiting.result(SOON)


def test_no_set_is_lost_between_two_waits() -> None:
    """Whatever was changed before a set is seen by the waiter after a wait, however the two meet."""
    event, total, seen = WakeEvent(), 3_000, 0
    state = [0]

    def ringer() -> None:
        for number in range(1, total + 1):
            state[0] = number
            event.set()

    thread = threading.Thread(target=ringer)
    thread.start()
    while seen < total:
        assert event.wait(SOON), f"asleep at {seen} though {state[0]} was rung"
        seen = state[0]
    thread.join()


def test_a_latch_lets_all_waiters_go_and_later_ones_too() -> None:
    latch = Latch()
    assert not latch.wait(0.0)
    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(latch.wait, SOON) for _ in range(8)]
        latch.set()
        assert all(wait.result(SOON) for wait in waiting)
    assert latch.wait(0.0)


def test_a_latch_that_stays_shut_ends_the_wait_at_its_timeout() -> None:
    began = time.monotonic()
    assert not Latch().wait(0.03)
    assert time.monotonic() - began >= 0.03


IN_SIGNAL_HANDLERS = """
import faulthandler, os, signal, threading, time
from scheduler.worker.wake_event import WakeEvent, Latch

faulthandler.dump_traceback_later(60, exit=True)
event, latch, caught = WakeEvent(), Latch(), 0

def on_signal(number, frame):
    global caught
    event.set()
    latch.wait(0.0001)  # as a second stop() would, inside the first one's wait
    event.set()
    caught += 1

signal.signal(signal.SIGUSR1, on_signal)
over = threading.Event()

def shoot():
    for _ in range(3000):
        before = caught
        os.kill(os.getpid(), signal.SIGUSR1)
        until = time.monotonic() + 0.01  # signals that come too fast become one
        while caught == before and time.monotonic() < until:
            time.sleep(0.0001)
    over.set()

shooter = threading.Thread(target=shoot)
shooter.start()
while not over.is_set():
    event.set()
    event.wait(0.001)
    latch.wait(0.0005)
shooter.join()
latch.set()
assert latch.wait(5.0)
print(caught > 1000 or caught)
"""


def test_three_thousand_signals_that_set_and_wait_do_not_block() -> None:
    """The main thread sets and waits while its signal handlers do the same: no lock is taken twice."""
    assert run_python(IN_SIGNAL_HANDLERS, timeout=90) == "True"


AT_THE_END_OF_A_WAIT = """
import faulthandler, signal, time
from scheduler.worker.wake_event import WakeEvent, Latch

faulthandler.dump_traceback_later(60, exit=True)
signal.signal(signal.SIGALRM, lambda *_: time.sleep(0.0003))
signal.setitimer(signal.ITIMER_REAL, 0.0007, 0.0007)
event, latch, end = WakeEvent(), Latch(), time.monotonic() + 2.0
while time.monotonic() < end:
    assert not event.wait(0.0005)
    assert not latch.wait(0.0005)
signal.setitimer(signal.ITIMER_REAL, 0.0)
print("ended")
"""


def test_a_signal_that_arrives_as_a_wait_ends_does_not_make_it_endless() -> None:
    """As it does with SimpleQueue.get() of Python 3.11 and 3.12, within a second of this."""
    assert run_python(AT_THE_END_OF_A_WAIT, timeout=90) == "ended"
