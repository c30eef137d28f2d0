"""Importing `scheduler.testing` is cheap, and its names are correct."""

from __future__ import annotations

import subprocess
import sys

import pytest

import scheduler.testing


def loaded_by(statement: str) -> set[str]:
    script = f"import sys\n{statement}\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    return set(done.stdout.split())


def test_importing_it_brings_neither_pytest_nor_hypothesis_nor_the_core() -> None:
    loaded = loaded_by("import scheduler.testing")
    assert not {"pytest", "hypothesis", "scheduler.backend"} & loaded


def test_its_names_bring_neither_pytest_nor_hypothesis() -> None:
    names = ", ".join(scheduler.testing.__all__)
    loaded = loaded_by(f"from scheduler.testing import {names}")
    assert "scheduler.backend" in loaded
    assert not {"pytest", "hypothesis"} & loaded


def test_the_plugin_brings_nothing_of_the_library() -> None:
    """pytest loads it in every run in an environment with the library, before coverage begins."""
    loaded = loaded_by("import scheduler.testing.pytest_plugin")
    assert {name for name in loaded if name.split(".")[0] == "scheduler"} == {
        "scheduler",
        "scheduler.testing",
        "scheduler.testing.pytest_plugin",
    }
    assert "hypothesis" not in loaded


def test_every_name_is_there_in_whatever_order_it_is_imported() -> None:
    for name in scheduler.testing.__all__:
        found = getattr(scheduler.testing, name)
        assert callable(found), name
        room = found.__module__
        loaded_by(f"import {room}\nfrom scheduler.testing import {name}\nassert callable({name})")
    assert set(scheduler.testing.__all__) <= set(dir(scheduler.testing))
    with pytest.raises(AttributeError):
        _ = scheduler.testing.laese
