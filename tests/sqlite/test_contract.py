"""The conformance suite on an SQLite file."""

from __future__ import annotations

from functools import partial

import pytest

from scheduler.testing.contract import BackendContract
from scheduler.testing.contract.rooms import SequencesContract
from scheduler.testing.contract.stand import Stand
from scheduler.testing.rig import OpenBackend
from scheduler_backends.sqlite import SqliteBackend


class TestSqliteBackend(BackendContract):
    backend_type = SqliteBackend

    @pytest.fixture
    def open_backend(self, tmp_path) -> OpenBackend:
        return partial(SqliteBackend, tmp_path / "jobs.db")


@pytest.mark.long
@pytest.mark.timeout(1_800)
class TestLongSequences(SequencesContract, Stand):
    examples = 1_000
    steps = 50

    @pytest.fixture
    def open_backend(self, tmp_path) -> OpenBackend:
        return partial(SqliteBackend, tmp_path / "jobs.db")
