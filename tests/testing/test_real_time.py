"""A backend without an assignable clock is tested in real time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest

from examples.own_backend import DictBackend
from scheduler.errors import BackendClosed
from scheduler.testing.contract import BackendContract, suite
from scheduler.testing.contract.fixtures import ContractFixtures
from scheduler.testing.harness import OpenBackend


class ClocklessBackend(DictBackend):
    """Uses only the system time, as a store on a server does."""

    def __init__(self, *, clock, retention) -> None:
        super().__init__(retention=retention)
        del self.clock

    @contextmanager
    def _open(self) -> Iterator[datetime]:
        with self._lock.entry():
            if self._closed:
                raise BackendClosed("the backend was closed")
            yield datetime.now(UTC)


class Opens:
    @pytest.fixture
    def open_backend(self) -> OpenBackend:
        return ClocklessBackend


class TestRecoveryInRealTime(Opens, suite.RecoverContract, ContractFixtures):
    pass


class TestPromotionInRealTime(Opens, suite.PromoteContract, ContractFixtures):
    pass


class TestLostAnswersInRealTime(Opens, suite.RepeatsContract, ContractFixtures):
    pass


@pytest.mark.long
class TestAllInRealTime(Opens, BackendContract):
    pass
