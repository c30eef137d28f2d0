"""How many jobs of a lease call are asked of which partition."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler_backends.redis.keys import Partition
from scheduler_backends.redis.rosters import Roster


def shares_of(
    wanted: int, groups: Sequence[Sequence[Partition]], roster: Roster, *, worth: int, turn: int
) -> dict[Partition, int]:
    """
    *wanted*, spread evenly over the queues, and in each over so few partitions that each gives *worth* jobs.

    groups: the partitions of each queue. roster: knows whose turn it is in a queue. turn: of this call; queues whose
    turn it is are given what cannot be split.
    """
    shares: dict[Partition, int] = {}
    for of_queue, mine in zip(_split(wanted, len(groups), turn), groups, strict=True):
        count = min(len(mine), max(1, of_queue // worth)) if worth > 1 else len(mine)
        chosen = roster.next_of(mine, count)
        shares.update(zip(chosen, _split(of_queue, count, 0), strict=True))
        # Where all are asked, those come next that were not given one more.
        if last := of_queue % count if count == len(mine) else min(count, of_queue):
            roster.had_turn(chosen[last - 1])
    return shares


def _split(number: int, parts: int, turn: int) -> list[int]:
    """*number* in even parts; those whose turn it is have one more."""
    if parts == 0:
        return []
    each, rest = divmod(number, parts)
    return [each + ((place - turn) % parts < rest) for place in range(parts)]
