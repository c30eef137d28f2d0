"""One sdist and one wheel, built from a copy of the checkout, so that building leaves nothing in it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
NOT_SOURCES = shutil.ignore_patterns(".*", "*.egg-info", "__pycache__", "_build", "build", "dist", "*.db*")


class Built(NamedTuple):
    sources: Path
    sdist: Path
    wheel: Path


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The distributions, the wheel built from the sdist: who installs from PyPI's source gets the same."""
    sources = tmp_path_factory.mktemp("built") / "sources"
    shutil.copytree(ROOT, sources, ignore=NOT_SOURCES)
    # Without isolation nothing is fetched; setuptools is in the test group.
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", "out", str(sources)]
    done = subprocess.run(command, cwd=sources.parent, capture_output=True, text=True, check=False)
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    assert "Warning" not in told, told  # such as BuildBackendWarning: a package would be ignored
    out = sources.parent / "out"
    return Built(sources, *out.glob("*.tar.gz"), *out.glob("*.whl"))
