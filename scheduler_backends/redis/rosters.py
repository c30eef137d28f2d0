"""The partitions of the queues that are served, in order, and whose turn it is to be looked at."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from scheduler_backends.redis.keys import Partition

FEW = 8  # partitions that are asked in every call, whatever is known of them


class Roster:
    """
    The partitions of some queues as one reading of their layouts has them. Any thread.

    Two sets hold the tags of partitions that were not looked at since notifications of their queues are received:
    `unglanced` for ready jobs, `unlooked` for due ones. They hold all while none are received.
    """

    __slots__ = (
        *("_asked", "by_queue", "names", "partitions", "place", "reading"),
        *("_places", "since", "unglanced", "unlooked"),
    )

    def __init__(self, asked: Sequence[str], by_queue: Mapping[str, Sequence[Partition]], reading: int) -> None:
        self._asked = tuple(asked)
        self.by_queue = by_queue  # those that exist, in the order in which they were named
        self.names = frozenset(asked)
        self.partitions = tuple(partition for some in by_queue.values() for partition in some)
        self.place = {partition.tag: place for place, partition in enumerate(self.partitions)}
        self.reading = reading  # of the layouts: which one this is made from
        self.since = -1  # which subscription the sets below belong to
        self.unglanced: set[bytes] = set(self.place)
        self.unlooked: set[bytes] = set(self.place)
        self._places: dict[str, int] = {}

    def take_over(self, older: Roster) -> None:
        """Take over what is known of the partitions that *older* has as well."""
        self.since = older.since
        if older.place.keys() == self.place.keys():  # the same sets: a look at all of them may be under way
            self.unglanced, self.unlooked = older.unglanced, older.unlooked
            return
        self.unglanced = {tag for tag in self.place if tag not in older.place or tag in older.unglanced}
        self.unlooked = {tag for tag in self.place if tag not in older.place or tag in older.unlooked}

    def forget(self, since: int) -> None:
        """Forget what is known of the partitions."""
        self.since = since
        self.unglanced = set(self.place)
        self.unlooked = set(self.place)

    def next_name(self) -> str:
        """One queue after the other."""
        place = self._places.get("name", -1) + 1
        self._places["name"] = place
        return self._asked[place % len(self._asked)]

    def those(self, tags: Sequence[bytes] | set[bytes]) -> list[Partition]:
        """Those of the partitions that are named, in order."""
        places = sorted(self.place[tag] for tag in tuple(tags) if tag in self.place)
        return [self.partitions[place] for place in places]

    def in_turn(self, purpose: str, count: int) -> list[Partition]:
        """The next *count* partitions, so that all have their turn after a while. All of them where there are fewer."""
        total = len(self.partitions)
        if total <= count:
            return list(self.partitions)
        # Several workers begin at different places, and share the round.
        first = self._places.get(purpose)
        if first is None:
            first = random.randrange(total)
        self._places[purpose] = (first + count) % total
        return [self.partitions[(first + step) % total] for step in range(count)]
