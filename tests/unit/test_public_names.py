"""The public names of `scheduler`, which are imported when first used."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import scheduler
from scheduler import errors

SOURCE = Path(scheduler.__file__)


def starred() -> set[str]:
    """The modules whose names type checkers see."""
    imports = [node for node in ast.walk(ast.parse(SOURCE.read_text())) if isinstance(node, ast.ImportFrom)]
    return {str(node.module) for node in imports if [alias.name for alias in node.names] == ["*"]}


PUBLIC = [name for name in scheduler.__all__ if name != "__version__"]


def run_alone(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


def test_type_checkers_and_programs_find_names_in_the_same_modules() -> None:
    assert starred() == {f"scheduler.{module}" for module in scheduler._MODULES}
    assert len(scheduler.__all__) == len(set(scheduler.__all__))


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_is_what_its_module_defines(name: str) -> None:
    found = getattr(scheduler, name)
    (module,) = {module for module in starred() if f"{found.__module__}.".startswith(f"{module}.")}
    assert found is getattr(importlib.import_module(module), name)


def test_type_checkers_and_programs_find_the_same_names() -> None:
    """A star imports what `__all__` of its module names; without that, it would import all that the module defines."""
    listed = [name for module in starred() for name in vars(importlib.import_module(module))["__all__"]]
    assert sorted([*listed, "__version__"]) == sorted(scheduler.__all__)
    assert not hasattr(scheduler, "ErrorDetail")  # which a module defines, but does not list


def test_every_error_is_public() -> None:
    defined = {
        name for name, kind in vars(errors).items() if inspect.isclass(kind) and kind.__module__ == errors.__name__
    }
    assert {name for name in defined if not name.startswith("_")} <= set(scheduler.__all__)


def test_a_star_import_and_dir_see_all() -> None:
    space: dict[str, object] = {}
    exec("from scheduler import *", space)  # noqa: S102 - a star is lawful only at a module's top
    assert set(scheduler.__all__) <= set(space)
    assert set(scheduler.__all__) <= set(dir(scheduler))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'scheduler' has no attribute 'Consumer'"):
        scheduler.Consumer  # type: ignore[attr-defined]  # noqa: B018 - what the test is about
    with pytest.raises(ImportError):
        from scheduler import Consumer  # type: ignore[attr-defined]  # noqa: F401, PLC0415 - as above
    assert not hasattr(scheduler, "MAX_NAME")  # other names of the modules are not public


def test_modules_are_imported_as_usual() -> None:
    assert run_alone("from scheduler import retry; import scheduler.jobs; print(retry.__name__)") == "scheduler.retry"


def test_importing_a_module_by_its_name_imports_no_other_ones() -> None:
    script = "import sys; from scheduler import retry; print('scheduler.worker' in sys.modules, retry.__name__)"
    assert run_alone(script) == "False scheduler.retry"


def test_importing_the_package_imports_none_of_its_modules() -> None:
    """Every name is imported when first used: a program's start pays only for what it uses."""
    script = """
import sys
before = set(sys.modules)
import scheduler
new = set(sys.modules) - before
print([name for name in new if name.startswith("scheduler.")])
"""
    assert run_alone(script) == "[]"


def test_a_producer_needs_no_worker() -> None:
    """A web process that only enqueues does not pay for the worker, nor for importlib.metadata."""
    script = """
import sys
before = set(sys.modules)
from scheduler import Producer, ConfigError
print({"scheduler.worker", "scheduler.plugins", "importlib.metadata"} & (set(sys.modules) - before))
"""
    assert run_alone(script) == "set()"


def test_the_version_is_that_of_the_distribution() -> None:
    assert scheduler.__version__ == version("reliable-scheduler")


def test_a_checkout_that_is_not_installed_has_a_version_too() -> None:
    script = """
import importlib.metadata

def missing(name):
    raise importlib.metadata.PackageNotFoundError(name)

importlib.metadata.version = missing
import scheduler
print(scheduler.__version__)
"""
    assert run_alone(script) == "0+unknown"


def test_no_public_name_is_the_name_of_a_module() -> None:
    """Importing such a module would replace the name by the module."""
    modules = {module.name for module in pkgutil.iter_modules(scheduler.__path__)}
    assert "errors" in modules
    assert not modules & set(scheduler.__all__)
