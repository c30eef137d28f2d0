"""The conformance suite on an SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from typing import ClassVar

import pytest

from damaged_rows import IDS, ROWS
from scheduler.testing.contract import BackendContract, Damage, IdDamage
from scheduler.testing.contract.fixtures import ContractFixtures
from scheduler.testing.contract.suite import SequencesContract
from scheduler.testing.harness import OpenBackend
from scheduler_backends.sqlite import SqliteBackend


def _writes(columns: Mapping[str, object]) -> Callable[[SqliteBackend, str, str], None]:
    values = ", ".join(
        f"{name} = {'CAST(? AS TEXT)' if isinstance(value, bytes) else '?'}" for name, value in columns.items()
    )

    def write(backend: SqliteBackend, queue: str, id: str) -> None:
        with closing(sqlite3.connect(backend._store.file.path, isolation_level=None)) as other:
            other.execute("PRAGMA ignore_check_constraints = ON")
            changed = other.execute(
                f"UPDATE scheduler_job SET {values} WHERE queue = ? AND id = ?", (*columns.values(), queue, id)
            )
            assert changed.rowcount == 1

    return write


class TestSqliteBackend(BackendContract):
    backend_type = SqliteBackend
    damages: ClassVar[dict[str, Damage]] = {
        name: Damage(
            field=garbage.column,
            write=_writes({garbage.column: garbage.value}),
            states=garbage.states,
            repaired_by_requeue=garbage.repaired_by_requeue,
        )
        for name, garbage in ROWS.items()
    }
    damages_of_id: ClassVar[dict[str, IdDamage]] = {
        name: IdDamage(write=_writes(columns))
        for name, columns in {
            **IDS,
            "no UTF-8": {"id": b"b\xff\xfe"},
            "no UTF-8 and priority": {"id": b"b\xff\xfe", "priority": 77},
            "no UTF-8 and errors": {"id": b"b\xff\xfe", "errors": b"[\xff]"},
        }.items()
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
