"""What is published holds exactly what it should."""

from __future__ import annotations

import re
import tarfile
import tomllib
import zipfile
from pathlib import Path

from packaging.metadata import Metadata
from packaging.version import Version


def metadata_of(wheel: Path) -> Metadata:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return Metadata.from_email(archive.read(name), validate=True)


def test_the_wheel_holds_both_packages_and_nothing_else(built):
    """Every module, both py.typed and every Lua script go in; tests, examples and documentation do not."""
    packages = [built.sources / "scheduler", built.sources / "scheduler_backends"]
    expected = {
        str(path.relative_to(built.sources))
        for package in packages
        for path in package.rglob("*")
        if path.suffix in {".py", ".lua"} or path.name == "py.typed"
    }
    with zipfile.ZipFile(built.wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert held == expected
    assert {"scheduler/py.typed", "scheduler_backends/py.typed"} <= held


def test_nothing_in_the_packages_is_left_out_unseen(built):
    """A new kind of data file must be named in setup.cfg, and in the test above."""
    for package in ("scheduler", "scheduler_backends"):
        kinds = {path.suffix for path in (built.sources / package).rglob("*") if path.is_file()}
        assert kinds <= {".py", ".lua", ".typed"}


def test_the_metadata_is_valid_and_the_core_depends_on_nothing(built):
    """PEP 621's fields arrive in the wheel, and whatever is required belongs to an extra."""
    metadata = metadata_of(built.wheel)
    assert metadata.name == "reliable-scheduler"
    assert metadata.version == Version("0.1.0")
    assert metadata.license_expression == "MIT"
    assert metadata.license_files == ["LICENSE"]
    assert str(metadata.requires_python) == ">=3.11"
    assert metadata.description_content_type == "text/markdown"
    assert [str(need) for need in metadata.requires_dist or [] if "extra ==" not in str(need)] == []


def test_the_front_page_has_no_link_that_breaks_on_an_index(built):
    """PyPI shows the README without the files beside it."""
    description = metadata_of(built.wheel).description
    links = re.findall(r"\]\(([^)]*)\)", description)
    assert [link for link in links if not link.startswith(("https://", "#"))] == []


def test_entry_points_arrive_as_written(built):
    """A URL's scheme finds its backend through the wheel's entry points, so none may be lost."""
    project = tomllib.loads((built.sources / "pyproject.toml").read_text())["project"]
    groups = {**project["entry-points"], "console_scripts": project.get("scripts", {})}
    with zipfile.ZipFile(built.wheel) as archive:
        [listed] = [name for name in archive.namelist() if name.endswith("/entry_points.txt")]
        lines = archive.read(listed).decode().splitlines()
    assert "scheduler.backends" in groups
    for group, points in groups.items():
        assert not points or f"[{group}]" in lines
        for name, target in points.items():
            assert f"{name} = {target}" in lines


def test_the_sdist_holds_what_is_needed_to_test_and_document(built):
    """Distributors build, test and document from the sdist alone."""
    with tarfile.open(built.sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md", "pyproject.toml", "run", "setup.cfg", "tox.ini",
        "docs/conf.py", "docs/index.md", "examples/quickstart.py", "tests/conftest.py",
    } <= held  # fmt: skip
    assert not [name for name in held if name.endswith((".pyc", ".so")) or "__pycache__" in name]
