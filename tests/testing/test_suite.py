"""Checks of the whole suite."""

from __future__ import annotations

from collections import Counter

from scheduler.states import MOVES
from scheduler.testing.contract import BackendContract, suite


def own_chapters() -> list[type]:
    return [kind for kind in BackendContract.__mro__[1:] if kind is not object]


def test_no_name_is_used_in_two_chapters() -> None:
    """In one class the second test would replace the first, which would never run."""
    names = Counter(name for chapter in own_chapters() for name in vars(chapter) if not name.startswith("__"))
    assert not {name: count for name, count in names.items() if count > 1}


def test_every_chapter_is_part_of_the_suite() -> None:
    defined = {kind for name, kind in vars(suite).items() if name.endswith("Contract") and name != "BackendContract"}
    assert defined < set(own_chapters())


def test_every_lawful_move_has_a_chapter() -> None:
    files = {kind.__module__.rpartition(".")[2] for kind in own_chapters()}
    assert {move.removesuffix("_due").removesuffix("_expired") for move in MOVES} <= files
