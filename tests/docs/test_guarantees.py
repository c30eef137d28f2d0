"""The page of guarantees and the tests that cite its numbers tell the same."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
CITED = re.compile(r"\b[Gg]uarantees? (\d+(?:(?:, | and )\d+)*)")
ROW = re.compile(r"^\| (\d+) \| .* \| (.*) \| [^|]* \|$", re.MULTILINE)


def named():
    """Which files the page names for each number."""
    rows = ROW.findall((ROOT / "docs/guarantees.md").read_text())
    assert [int(number) for number, _ in rows] == list(range(1, len(rows) + 1)), "numbers are in order, once each"
    return {int(number): set(re.findall(r"`([\w/.]+\.py)`", files)) for number, files in rows}


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
