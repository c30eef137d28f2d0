"""The example of a third-party backend passes the suite. Its author writes no more than this."""

from __future__ import annotations

import pytest

from examples.own_backend import DictBackend
from scheduler.testing.contract import BackendContract


class TestDictBackend(BackendContract):
    @pytest.fixture
    def open_backend(self) -> type[DictBackend]:
        return DictBackend
