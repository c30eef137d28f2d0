"""One file for each test."""

from __future__ import annotations

from collections.abc import Iterator
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
