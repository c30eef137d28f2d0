"""The suite as a whole: nothing in it hides anything else."""

from __future__ import annotations

from collections import Counter

from scheduler.states import MOVES
from scheduler.testing.contract import BackendContract, rooms


def own_rooms() -> list[type]:
    return [kind for kind in BackendContract.__mro__[1:] if kind is not object]


def test_no_name_is_used_in_two_rooms() -> None:
    """In one class the second would hide the first, which then never ran."""
    names = Counter(name for room in own_rooms() for name in vars(room) if not name.startswith("__"))
    assert not {name: count for name, count in names.items() if count > 1}


def test_every_room_is_part_of_the_suite() -> None:
    defined = {kind for name, kind in vars(rooms).items() if name.endswith("Contract") and name != "BackendContract"}
    assert defined < set(own_rooms())


def test_every_lawful_move_has_a_room() -> None:
    files = {kind.__module__.rpartition(".")[2] for kind in own_rooms()}
    assert {move.removesuffix("_due").removesuffix("_expired") for move in MOVES} <= files
