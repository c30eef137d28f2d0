"""A store's wake-ups reach every thread that may sleep too long."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from scheduler.abilities import WakeReason
from scheduler.config import WorkerConfig
from scheduler.errors import BackendUnavailable
from scheduler.logs import GuardedLogger
from scheduler.metrics import NopMetrics
from scheduler.worker.listener import Listener
from scheduler.worker.threads import Run
from scheduler.worker.wake_event import WakeEvent
from scheduler_backends.memory import MemoryBackend


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


class PumpsEvent(WakeEvent):
    """In the place of the pump's event: notes that it was set."""

    def __init__(self, woken: list[str]) -> None:
        super().__init__()
        self._woken = woken

    def set(self) -> None:
        self._woken.append("pump")


def listening(make: Callable[[], Waiter], woken: list[str]) -> Listener:
    logger = GuardedLogger(logging.getLogger("tests.listener"))
    run = Run(MemoryBackend(), WorkerConfig(), NopMetrics(), logger)
    run.wake_event = PumpsEvent(woken)
    return Listener(run, make, sooner=lambda: woken.append("promoter"))


def test_a_wake_up_reaches_the_threads_that_it_concerns_and_the_next_wait_follows_at_once() -> None:
    woken: list[str] = []
    listener = listening(
        making(Waiter(WakeReason.JOBS_READY, WakeReason.NONE, WakeReason.EARLIER_DUE_TIME, WakeReason.ANY)), woken
    )
    assert [listener.listen() for _ in range(4)] == [0.0, 0.0, 0.0, 0.0]
    assert woken == ["pump", "promoter", "pump", "promoter"]


def test_a_wait_is_long_and_bounded() -> None:
    waiter = Waiter(WakeReason.NONE)
    listening(making(waiter), []).listen()
    assert 1.0 <= waiter.timeouts[0] <= 60.0


def test_a_store_that_is_away_is_the_tickers_business() -> None:
    woken: list[str] = []
    listener = listening(making(Waiter(BackendUnavailable("away"), WakeReason.ANY)), woken)
    with pytest.raises(BackendUnavailable):
        listener.listen()
    assert not woken
    listener.listen()
    assert woken == ["pump", "promoter"], "wake-ups may have been missed meanwhile"


def test_a_store_that_is_away_at_the_start_is_waited_for_too() -> None:
    tries = [making(BackendUnavailable("away")), making(Waiter(WakeReason.ANY))]
    woken: list[str] = []

    def make() -> Waiter:
        return tries.pop(0)()

    listener = listening(make, woken)
    with pytest.raises(BackendUnavailable):
        listener.listen()
    listener.close()
    listener.listen()
    assert woken == ["pump", "promoter"]


def test_an_interrupt_ends_the_wait_also_one_that_has_not_begun() -> None:
    waiter = Waiter()
    listener = listening(making(waiter), [])
    listener.interrupt()  # while the waiter is being made
    assert listener.listen() == 0.0
    assert waiter.timeouts == []
    listener.interrupt()
    listener.close()
    assert waiter.done == ["interrupt", "close"]


def test_a_waiter_that_cannot_be_closed_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Waiter):
        def close(self) -> None:
            raise OSError("bad descriptor")

    listener = listening(making(Broken(WakeReason.NONE)), [])
    listener.listen()
    listener.close()
    assert "could not be closed: bad descriptor" in caplog.text
