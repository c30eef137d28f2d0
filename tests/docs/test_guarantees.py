"""The page of guarantees and the tests that cite its numbers agree."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
CITED = re.compile(r"\b[Gg]uarantees? (\d+(?:(?:, | and )\d+)*)")
SECTION = re.compile(
    r"^## (\d+)\. \S.*\n\n"  # number and title
    r"\S(?:.|\n(?!## |- ))+\n"  # what holds
    r"- Tests: (?P<tests>(?:.|\n  )+)\n"
    r"- Stores: (?P<stores>.+)$",
    re.MULTILINE,
)
STORES = {"M", "S", "R", "P"}


def sections():
    """The page's sections by their numbers."""
    page = (ROOT / "docs/guarantees.md").read_text()
    found = {int(match[1]): match for match in SECTION.finditer(page)}
    assert list(found) == list(range(1, page.count("\n## ") + 1)), "numbers are in order, once each, in one form"
    return found


def named():
    """Which files the page names for each number."""
    return {number: set(re.findall(r"`([\w/.]+\.py)`", match["tests"])) for number, match in sections().items()}


def citing():
    """Which files cite each number."""
    found = defaultdict(set)
    for folder in ("tests", "scheduler/testing"):
        for path in (ROOT / folder).rglob("*.py"):
            for match in CITED.finditer(path.read_text()):
                for number in re.findall(r"\d+", match[1]):
                    found[int(number)].add(str(path.relative_to(ROOT)))
    return found


def test_every_guarantee_names_the_files_that_cite_it_and_no_others():
    assert named() == citing()


def test_every_guarantee_is_shown_by_a_test():
    assert all(named().values())


def test_every_guarantee_says_on_which_stores():
    for match in sections().values():
        assert set(match["stores"].split(";")[0].split()) <= STORES, match[0]
