"""What importing the library brings along."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import scheduler

ROOT = Path(scheduler.__path__[0])
# Looked for on disk: walk_packages would import them here. The others have extras of their own.
CORE = sorted(
    ".".join(["scheduler", *path.relative_to(ROOT).with_suffix("").parts]).removesuffix(".__init__")
    for path in ROOT.rglob("*.py")
    if path.relative_to(ROOT).parts[0] not in {"cli", "contrib", "testing"}
)

# Prints every top-level module that is neither ours nor the standard library's, after the imports.
STRANGERS = """
import sys
before = set(sys.modules)
{imports}
new = {{name.partition(".")[0] for name in set(sys.modules) - before}}
print(*sorted(new - sys.stdlib_module_names - {{"scheduler"}}))
"""


def strangers(*modules: str) -> list[str]:
    script = STRANGERS.format(imports="\n".join(f"import {module}" for module in modules))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_the_core_stands_on_the_standard_library_alone():
    """All of the core's modules together import no third-party module and no backend."""
    assert strangers(*CORE) == []


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_the_embedded_stores_need_nothing_installed(store):
    """The quick start, and the durable step after it, run with nothing but the core."""
    assert strangers(f"scheduler_backends.{store}") == ["scheduler_backends"]


def test_the_check_sees_a_stranger():
    """The test above would notice a third-party module: pytest is one."""
    assert "pytest" in strangers("pytest")
