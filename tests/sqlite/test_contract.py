"""The conformance suite on an SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import ClassVar

import pytest

from damaged_rows import ROWS, Garbage
from scheduler.testing.contract import BackendContract, Damage
from scheduler.testing.contract.fixtures import ContractFixtures
from scheduler.testing.contract.suite import SequencesContract
from scheduler.testing.harness import OpenBackend
from scheduler_backends.sqlite import SqliteBackend


def _writes(garbage: Garbage) -> Callable[[SqliteBackend, str, str], None]:
    def write(backend: SqliteBackend, queue: str, id: str) -> None:
        with closing(sqlite3.connect(backend._store.file.path, isolation_level=None)) as other:
            other.execute("PRAGMA ignore_check_constraints = ON")
            changed = other.execute(
                f"UPDATE scheduler_job SET {garbage.column} = ? WHERE queue = ? AND id = ?", (garbage.value, queue, id)
            )
            assert changed.rowcount == 1

    return write


class TestSqliteBackend(BackendContract):
    backend_type = SqliteBackend
    damages: ClassVar[dict[str, Damage]] = {
        name: Damage(
            field=garbage.column,
            write=_writes(garbage),
            states=garbage.states,
            repaired_by_requeue=garbage.repaired_by_requeue,
        )
        for name, garbage in ROWS.items()
    }

    @pytest.fixture
    def open_backend(self, tmp_path) -> OpenBackend:
        return partial(SqliteBackend, tmp_path / "jobs.db")


@pytest.mark.long
@pytest.mark.timeout(1_800)
class TestLongSequences(SequencesContract, ContractFixtures):
    examples = 1_000
    steps = 50

    @pytest.fixture
    def open_backend(self, tmp_path) -> OpenBackend:
        return partial(SqliteBackend, tmp_path / "jobs.db")
