"""The conformance suite on an SQLite file."""

from __future__ import annotations

from functools import partial

import pytest

from scheduler.testing.contract import BackendContract
from scheduler.testing.rig import OpenBackend
from scheduler_backends.sqlite import SqliteBackend


class TestSqliteBackend(BackendContract):
    @pytest.fixture
    def open_backend(self, tmp_path) -> OpenBackend:
        return partial(SqliteBackend, tmp_path / "jobs.db")
