"""A thread that does one duty again and again: it outlives a store that is away, and does not hide a bug."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from scheduler.errors import BackendClosed, BackendUnavailable
from scheduler.worker.threads import Ticker
from worker.harness import SOON


class Duty:
    """Counts its turns, and raises or returns the given answers."""

    def __init__(self, *answers: float | BaseException) -> None:
        self.answers = list(answers)
        self.turns = 0
        self._turned = threading.Condition()

    def __call__(self) -> float:
        answer = self.answers.pop(0) if self.answers else 3_600.0
        with self._turned:
            self.turns += 1
            self._turned.notify_all()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def wait_for(self, turns: int) -> bool:
        with self._turned:
            return self._turned.wait_for(lambda: self.turns >= turns, SOON)


Make = Callable[..., Ticker]


@pytest.fixture
def crashes() -> list[BaseException]:
    return []


@pytest.fixture
def make(crashes: list[BaseException]) -> Iterator[Make]:
    made: list[Ticker] = []

    def make_one(duty: Duty, **options: object) -> Ticker:
        ticker = Ticker(name="scheduler-test", duty=duty, crashed=crashes.append, **options)  # type: ignore[arg-type]  # by name
        made.append(ticker)
        return ticker

    yield make_one
    for ticker in made:
        ticker.stop()
        assert ticker.join(SOON)


def test_the_first_turn_comes_at_once_and_others_after_their_pause(make: Make) -> None:
    duty = Duty(0.0, 0.001, 0.0)
    make(duty).start()
    assert duty.wait_for(4)


def test_a_wake_up_brings_the_next_turn_now(make: Make) -> None:
    duty = Duty()
    ticker = make(duty)
    ticker.start()
    for turns in range(1, 20):
        assert duty.wait_for(turns)
        ticker.set()
    assert duty.wait_for(20)


def test_it_ends_when_stopped_in_the_middle_of_a_pause(make: Make) -> None:
    duty = Duty()
    ticker = make(duty)
    ticker.start()
    assert duty.wait_for(1)
    ticker.stop()
    assert ticker.join(SOON)
    assert duty.turns == 1


def test_a_store_that_is_away_is_asked_again(make: Make, crashes: list[BaseException]) -> None:
    duty = Duty(BackendUnavailable("away"), BackendUnavailable("away"), 0.0)
    make(duty).start()
    assert duty.wait_for(4)
    assert not crashes


@pytest.mark.parametrize("error", [ZeroDivisionError(), SystemExit(1), KeyboardInterrupt(), BackendClosed("x")])
def test_any_other_error_is_reported_and_ends_the_thread(
    make: Make, crashes: list[BaseException], error: BaseException
) -> None:
    duty = Duty(error, 0.0)
    ticker = make(duty)
    ticker.start()
    assert ticker.join(SOON)
    assert crashes == [error]
    assert duty.turns == 1


def test_a_lasting_ticker_reports_a_bug_and_goes_on(make: Make, crashes: list[BaseException]) -> None:
    duty = Duty(ZeroDivisionError(), SystemExit(), 0.0)
    make(duty, lasting=True).start()
    assert duty.wait_for(4)
    assert [type(error) for error in crashes] == [ZeroDivisionError, SystemExit]


def test_the_thread_is_marked_before_its_first_turn(make: Make) -> None:
    entered: list[int] = []
    duty = Duty()
    ticker = make(duty, enter=lambda: entered.append(threading.get_ident()))
    ticker.start()
    assert duty.wait_for(1)
    assert entered == [ticker._thread.ident]


def test_a_duty_that_waits_elsewhere_is_interrupted_by_the_stop(make: Make) -> None:
    waiting, let_go = threading.Event(), threading.Event()

    def duty() -> float:
        waiting.set()
        assert let_go.wait(SOON)
        return 0.0

    ticker = make(duty, interrupt=let_go.set)
    ticker.start()
    assert waiting.wait(SOON)
    ticker.stop()
    assert ticker.join(SOON)


def test_an_interrupt_that_fails_is_reported_and_the_thread_still_stops(
    make: Make, crashes: list[BaseException]
) -> None:
    def interrupt() -> None:
        raise OSError("no")

    ticker = make(Duty(), interrupt=interrupt)
    ticker.start()
    ticker.stop()
    assert ticker.join(SOON)
    assert isinstance(crashes[0], OSError)


def test_one_that_never_started_counts_as_ended(make: Make) -> None:
    ticker = make(Duty())
    assert ticker._thread.ident is None
    assert ticker.join(0.0)
    ticker.stop()


def test_a_join_that_is_too_early_says_so(make: Make) -> None:
    ticker = make(Duty())
    ticker.start()
    assert not ticker.join(0.01)
    assert not ticker.join(-1.0)


def test_a_store_that_is_away_is_not_asked_sooner_because_of_wake_ups(make: Make) -> None:
    """No busy loop: a wake-up does not shorten the back-off."""
    duty = Duty(*[BackendUnavailable("away") for _ in range(100)])
    ticker = make(duty)
    stop = threading.Event()

    def wake() -> None:
        while not stop.is_set():
            ticker.set()
            stop.wait(0.001)

    waker = threading.Thread(target=wake)
    waker.start()
    began = time.monotonic()
    ticker.start()
    assert duty.wait_for(5)
    took = time.monotonic() - began
    stop.set()
    waker.join()
    assert duty.turns == 5
    assert took >= 0.05 + 0.1 + 0.2 + 0.4  # half of 0.1, 0.2, 0.4, 0.8


def test_a_stop_ends_the_back_off_at_once(make: Make) -> None:
    duty = Duty(*[BackendUnavailable("away") for _ in range(100)])
    ticker = make(duty, longest_back_off=3_600.0)
    ticker._back_off._failures = 15  # the next wait takes half an hour at least
    ticker.start()
    assert duty.wait_for(1)
    ticker.stop()
    assert ticker.join(SOON)


def test_back_off_restarts_after_an_outage(make: Make) -> None:
    ticker = make(Duty(*[BackendUnavailable("away")] * 3, 0.0))
    ticker._back_off._longest = 0.001
    ticker.start()
    assert ticker.duty.wait_for(5)  # type: ignore[attr-defined]  # ours
    assert ticker._back_off._failures == 0


@pytest.mark.parametrize("answer", [0.0, ZeroDivisionError()])
def test_the_end_is_announced_on_the_thread_after_the_last_turn(make: Make, answer: float | BaseException) -> None:
    ended: list[int | None] = []
    duty = Duty(answer, answer)
    ticker = make(duty, at_end=lambda: ended.append(threading.get_ident()))
    ticker.start()
    assert duty.wait_for(1)
    ticker.stop()
    assert ticker.join(SOON)
    assert ended == [ticker._thread.ident]
