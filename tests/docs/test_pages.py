"""What the pages show is true: their code runs, and the commands and files they name exist."""

from __future__ import annotations

import re
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(page for page in ROOT.glob("docs/**/*.md") if "_build" not in page.parts)])
# Shown code, and set-up that the reader does not need to see: an HTML comment that begins with "python".
CODE = re.compile(r"^(?:```python\n(?P<shown>.*?)^```$|<!-- python\n(?P<hidden>.*?)^-->$)", re.DOTALL | re.MULTILINE)


def code_of(page: Path) -> str:
    """All Python of a page as one program; the lines keep their numbers, so that an error tells where it is."""
    text = page.read_text()
    lines = [""] * (text.count("\n") + 1)
    for match in CODE.finditer(text):
        code = match["shown"] or match["hidden"]
        first = text.count("\n", 0, match.start()) + 1
        lines[first : first + code.count("\n")] = code.splitlines()
    return "\n".join(lines)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [page for page in PAGES if code_of(page).strip()], ids=name_of)
def test_the_code_of_a_page_runs(page, tmp_path):
    """From top to bottom, as one program, in an empty folder, with warnings as errors."""
    program = tmp_path / "page.py"
    program.write_text(code_of(page))
    done = subprocess.run(
        [sys.executable, "-W", "error", program.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"{page}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_name_environments_that_exist(page):
    """Every `./run NAME` of a page is an environment of tox.ini."""
    tox = ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    known = {name for section in tox.sections() for name in alternatives(section.removeprefix("testenv:"))}
    named = {
        name for names in re.findall(r"\./run ([a-z0-9][a-z0-9,-]*)", page.read_text()) for name in names.split(",")
    }
    assert named <= known


def alternatives(name: str) -> list[str]:
    """What braces in a section's name stand for: py3{11,12}-memory is two environments."""
    braces = re.search(r"\{([^{}]*)\}", name)
    if braces is None:
        return [name]
    return [
        whole
        for part in braces[1].split(",")
        for whole in alternatives(name[: braces.start()] + part.strip() + name[braces.end() :])
    ]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_named_files_exist(page):
    """Every path in backticks that begins with a folder of the checkout is there."""
    folders = "scheduler|scheduler_backends|tests|examples|benchmarks|docs|\\.ci"
    for path in re.findall(rf"`((?:{folders})/[\w./-]*)`", page.read_text()):
        if "_build" not in path:
            assert (ROOT / path).exists(), path


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_between_pages_lead_somewhere(page):
    """Sphinx sees to docs/ and its anchors; this sees to README and CONTRIBUTING as well."""
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), target
