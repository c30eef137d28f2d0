"""How many jobs of a lease call are asked of which partition."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler_backends.redis.keys import Partition


def shares_of(wanted: int, groups: Sequence[Sequence[Partition]], *, worth: int, turn: int) -> dict[Partition, int]:
    """
    *wanted*, spread evenly over the queues, and in each over so few partitions that each gives *worth* jobs.

    groups: the partitions of each queue. turn: of this call; each has the next one.
    """
    shares: dict[Partition, int] = {}
    for of_queue, mine in zip(_split(wanted, len(groups), turn), groups, strict=True):
        count = min(len(mine), max(1, of_queue // worth)) if worth > 1 else len(mine)
        first = turn // len(groups) * count
        chosen = [mine[(first + place) % len(mine)] for place in range(count)]
        shares.update(zip(chosen, _split(of_queue, count, turn // len(groups)), strict=True))
    return shares


def _split(number: int, parts: int, turn: int) -> list[int]:
    """*number* in even parts; those whose turn it is have one more."""
    if parts == 0:
        return []
    each, rest = divmod(number, parts)
    return [each + ((place - turn) % parts < rest) for place in range(parts)]
