"""One file for each test."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from scheduler_backends.sqlite import SqliteBackend


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def backend(path) -> Iterator[SqliteBackend]:
    backend = SqliteBackend(path)
    yield backend
    backend.close()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users reach: pytest's own is closed to them again whenever a session starts."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.fixture
def spoil(path) -> Callable[..., None]:
    """Sets columns of the job "bad", past the checks or not."""

    def spoil(*, all_jobs=False, strict=True, **columns):
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            if strict:
                other.execute("PRAGMA ignore_check_constraints = ON")
            where = "id LIKE 'bad%'" if all_jobs else "id = 'bad'"
            values = ", ".join(f"{name} = ?" for name in columns)
            assert other.execute(f"UPDATE scheduler_job SET {values} WHERE {where}", (*columns.values(),)).rowcount

    return spoil


@pytest.fixture
def row(path) -> Callable[[], dict[str, object]]:
    """Returns the row of the job "bad"."""

    def row():
        with closing(sqlite3.connect(path)) as other:
            other.row_factory = sqlite3.Row
            return dict(other.execute("SELECT * FROM scheduler_job WHERE id = 'bad'").fetchone())

    return row
