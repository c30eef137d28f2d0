"""Example programs in folders of their own, started as a person would."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from programs import Program

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(params=["sqlite", "redis", "postgres"])
def jobs_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where jobs are kept: in a file by default, on a server where one can be had."""
    if request.param == "redis":
        return f"{request.getfixturevalue('redis_url')}?prefix={request.getfixturevalue('redis_prefix')}"
    if request.param == "postgres":
        return f"{request.getfixturevalue('postgres_url')}?migrate=true&prefix=t{os.urandom(4).hex()}"
    return f"sqlite:///{tmp_path / 'jobs.db'}"


@pytest.fixture
def example(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """Starts `python ARGUMENTS` in a copy of an example's folder, with what it needs in its environment."""
    programs: list[Program] = []

    def start(name: str, *arguments: str, **environment: str) -> Program:
        folder = tmp_path / name
        if not folder.exists():
            shutil.copytree(EXAMPLES / name, folder, ignore=shutil.ignore_patterns("__pycache__", "*.db*"))
        programs.append(Program([sys.executable, *arguments], folder, PYTHONUNBUFFERED="1", **environment))
        return programs[-1]

    yield start
    for program in programs:
        program.kill()
