"""A store's wake-ups reach everybody who may sleep too long."""

from __future__ import annotations

import errno
import os
import socket
from collections import deque
from collections.abc import Callable

import pytest

from scheduler.abilities import WakeReason
from scheduler.errors import BackendUnavailable
from scheduler.sleeping import Sleeper
from scheduler.worker.listener import Listener


class Waiter:
    def __init__(self, *answers: WakeReason | BaseException) -> None:
        self.answers = list(answers)
        self.timeouts: list[float] = []
        self.done: list[str] = []

    def wait(self, timeout: float) -> WakeReason:
        self.timeouts.append(timeout)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def interrupt(self) -> None:
        self.done.append("interrupt")

    def close(self) -> None:
        self.done.append("close")


def making(waiter: Waiter | BaseException) -> Callable[[], Waiter]:
    def make() -> Waiter:
        if isinstance(waiter, BaseException):
            raise waiter
        return waiter

    return make


def listening(make: Callable[[], Waiter], rings: list[str]) -> Listener:
    return Listener(make, ready=lambda: rings.append("pump"), sooner=lambda: rings.append("promoter"))


def test_news_ring_those_whom_they_concern_and_the_next_wait_follows_at_once() -> None:
    rings: list[str] = []
    listener = listening(
        making(Waiter(WakeReason.JOBS_READY, WakeReason.NONE, WakeReason.EARLIER_DUE_TIME, WakeReason.ANY)), rings
    )
    assert [listener.listen() for _ in range(4)] == [0.0, 0.0, 0.0, 0.0]
    assert rings == ["pump", "promoter", "pump", "promoter"]


def test_a_wait_is_long_and_bounded() -> None:
    waiter = Waiter(WakeReason.NONE)
    listening(making(waiter), []).listen()
    assert 1.0 <= waiter.timeouts[0] <= 60.0


def test_a_store_that_is_away_is_the_tickers_business() -> None:
    rings: list[str] = []
    listener = listening(making(Waiter(BackendUnavailable("away"), WakeReason.ANY)), rings)
    with pytest.raises(BackendUnavailable):
        listener.listen()
    assert not rings
    listener.listen()
    assert rings == ["pump", "promoter"], "news may have been missed meanwhile"


def test_a_store_that_is_away_at_the_start_is_waited_for_too() -> None:
    tries = [making(BackendUnavailable("away")), making(Waiter(WakeReason.ANY))]
    rings: list[str] = []

    def make() -> Waiter:
        return tries.pop(0)()

    listener = listening(make, rings)
    with pytest.raises(BackendUnavailable):
        listener.listen()
    listener.close()
    listener.listen()
    assert rings == ["pump", "promoter"]


def test_an_interrupt_ends_the_wait_also_one_that_has_not_begun() -> None:
    waiter = Waiter()
    listener = listening(making(waiter), [])
    listener.interrupt()  # while the waiter is being made
    assert listener.listen() == 0.0
    assert waiter.timeouts == []
    listener.interrupt()
    listener.close()
    assert waiter.done == ["interrupt", "close"]


def test_a_waiter_whose_descriptors_were_closed_is_replaced() -> None:
    broken, whole = Waiter(OSError(errno.EBADF, "closed")), Waiter(WakeReason.NONE)
    waiters, rings = [broken, whole], list[str]()
    listener = listening(lambda: waiters.pop(0), rings)
    assert 0.0 < listener.listen() < 1.0
    assert broken.done == ["close"]
    assert rings == ["pump", "promoter"], "notifications may have been missed"
    assert listener.listen() == 0.0
    listener.close()
    assert whole.done == ["close"]


def test_waiters_are_not_replaced_for_ever_nor_for_another_error() -> None:
    with pytest.raises(OSError, match="disk"):
        listening(making(Waiter(OSError(errno.EIO, "disk"))), []).listen()
    made: list[Waiter] = []

    def make() -> Waiter:
        made.append(Waiter(OSError(errno.EBADF, "closed")))
        return made[-1]

    listener = listening(make, [])
    with pytest.raises(OSError, match="closed"):
        deque((listener.listen() for _ in range(100)), maxlen=0)
    assert 2 < len(made) < 50


def test_closed_descriptors_that_are_now_anothers_are_left_alone() -> None:
    sleeper = Sleeper()
    numbers = [sleeper._woken.fileno(), sleeper._waker.fileno()]
    ends = socket.socketpair()
    try:
        for number in numbers:
            os.dup2(ends[0].fileno(), number)  # as if it had been closed, and opened for another file
        ends[1].send(b"for somebody else")
        with pytest.raises(OSError, match="closed"):
            sleeper.sleep(1.0)
        sleeper.wake()
        sleeper.close()
        assert os.read(numbers[0], 100) == b"for somebody else"
        ends[1].setblocking(False)
        with pytest.raises(BlockingIOError):
            ends[1].recv(1)
    finally:
        for number in numbers:
            os.close(number)
        for end in ends:
            end.close()
