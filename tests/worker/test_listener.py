"""A store's wake-ups reach everybody who may sleep too long."""

from __future__ import annotations

import pytest

from scheduler.errors import BackendUnavailable
from scheduler.worker.listener import Listener


class Waiter:
    def __init__(self, *answers: bool | BaseException) -> None:
        self.answers = list(answers)
        self.timeouts: list[float] = []

    def wait(self, timeout: float) -> bool:
        self.timeouts.append(timeout)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def interrupt(self) -> None: ...

    def close(self) -> None: ...


def test_news_ring_everybody_and_the_next_wait_follows_at_once() -> None:
    rings: list[str] = []
    listener = Listener(Waiter(True, False, True), lambda: rings.append("pump"), lambda: rings.append("promoter"))
    assert [listener.listen() for _ in range(3)] == [0.0, 0.0, 0.0]
    assert rings == ["pump", "promoter", "pump", "promoter"]


def test_a_wait_is_long_and_bounded() -> None:
    waiter = Waiter(False)
    Listener(waiter).listen()
    assert 1.0 <= waiter.timeouts[0] <= 60.0


def test_a_store_that_is_away_is_the_tickers_business() -> None:
    rings: list[int] = []
    listener = Listener(Waiter(BackendUnavailable("away"), True), lambda: rings.append(1))
    with pytest.raises(BackendUnavailable):
        listener.listen()
    assert not rings
    listener.listen()
    assert rings == [1], "news may have been missed meanwhile"
