"""Which partitions have ready jobs, as far as is known: first those whose turn it is."""

from __future__ import annotations

import itertools
import threading

from scheduler.processes import PerProcess
from scheduler_backends.redis.keys import Partition
from scheduler_backends.redis.rosters import Roster

MOST_QUEUES = 100_000  # with hints; when there are more, it is better to look


class ReadyHints:
    """
    Partitions by queue, both in the order of their turns. Any thread.

    A partition is taken off when it is asked, and added at the end when it has more jobs; its queue goes to the end as
    well. So all get their turn, and no last turn must be remembered. A message that comes meanwhile adds it as usual.
    """

    def __init__(self) -> None:
        # Guards the queues. Re-entrant, for a finaliser or a signal handler that leases; a child has a lock of its own.
        self._locks: PerProcess[threading.RLock] = PerProcess()
        self._queues: dict[str, dict[bytes, Partition]] = {}

    def __bool__(self) -> bool:
        return bool(self._queues)

    def __contains__(self, partition: Partition) -> bool:
        return partition.tag in self._queues.get(partition.queue, ())

    def clear(self) -> None:
        """Forget all."""
        with self._locks.get(threading.RLock):
            self._queues.clear()

    def add(self, partition: Partition) -> bool:
        """*partition* has ready jobs, or may have. Returns False where too many are known: all are forgotten then."""
        with self._locks.get(threading.RLock):
            has_room = len(self._queues) < MOST_QUEUES
            if not has_room:
                self._queues.clear()
            self._queues.setdefault(partition.queue, {})[partition.tag] = partition
            return has_room

    def take_off(self, partition: Partition) -> None:
        """*partition* is asked now; its queue has had its turn."""
        with self._locks.get(threading.RLock):
            partitions = self._queues.pop(partition.queue, None)
            if partitions is not None:
                partitions.pop(partition.tag, None)
                if partitions:
                    self._queues[partition.queue] = partitions

    def first(self, roster: Roster, most: int, few: int) -> tuple[list[list[Partition]], bool]:
        """
        By queue, the partitions of *roster* that have ready jobs, and whether further queues have some.

        Of all queues, or of the first *few* where more than *most* have some.
        """
        with self._locks.get(threading.RLock):
            while True:
                groups = (
                    group
                    for queue, some in self._queues.items()
                    if queue in roster.by_queue  # and of versions that are still there:
                    and (group := [one for one in some.values() if one.tag in roster.place])
                )
                try:
                    found = list(itertools.islice(groups, most + 1))
                    break
                except RuntimeError:  # a call inside this one has changed them
                    continue
        return (found[:few], True) if len(found) > most else (found, False)

    def next_of_each(self, roster: Roster, most: int) -> list[Partition]:
        """The partition whose turn is next in each of the first queues of *roster*, at most so many."""
        with self._locks.get(threading.RLock):
            while True:
                queues = (some for queue, some in self._queues.items() if queue in roster.by_queue)
                try:
                    return [next(iter(some.values())) for some in itertools.islice(queues, most)]
                except RuntimeError:  # as above
                    continue
