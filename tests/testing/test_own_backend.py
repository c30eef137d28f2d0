"""The stranger's example passes the suite: this is all that its author has to write."""

from __future__ import annotations

import pytest

from examples.own_backend import DictBackend
from scheduler.testing.contract import BackendContract


class TestDictBackend(BackendContract):
    @pytest.fixture
    def open_backend(self) -> type[DictBackend]:
        return DictBackend
