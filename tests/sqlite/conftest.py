"""One file for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

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
