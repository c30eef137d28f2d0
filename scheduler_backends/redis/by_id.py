"""Calls on jobs by id, which search every version of the queue, the active version first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from scheduler.topology import partition_of
from scheduler_backends.redis.calls import Call
from scheduler_backends.redis.client.node import Word
from scheduler_backends.redis.keys import Partition
from scheduler_backends.redis.layout import Layout
from scheduler_backends.redis.scripts import SLICE, Script
from scheduler_backends.redis.store import Store


def call_on_ids(
    store: Store,
    queue: str,
    ids: Sequence[str],
    script: Script,
    head: tuple[Word, ...],
    *,
    take: Callable[[int, Partition, object], bool],
) -> None:
    """
    Run *script* on the jobs of *queue* with these ids.

    Args:
        store: The store of the jobs.
        queue: The queue of the jobs. If it does not exist, no call is made.
        ids: Any number of ids.
        script: Returns one answer for each id.
        head: The arguments before the ids.
        take: Called with the position of an id, a partition and its answer. Returns whether the job was found there.
    """
    store.calls.check_open()

    def ask(layout: Layout, numbers: Sequence[int]) -> Sequence[int]:
        """Return the positions of the ids that were not found."""
        for partitions in layout.versions if layout.exists else ():
            by_partition: dict[Partition, list[int]] = {}
            for number in numbers:
                by_partition.setdefault(partitions[partition_of(ids[number], len(partitions))], []).append(number)
            batches = [
                (partition, some[start : start + SLICE])
                for partition, some in by_partition.items()
                for start in range(0, len(some), SLICE)
            ]
            calls = [Call(script, one, (*head, *(ids[number].encode() for number in some))) for one, some in batches]
            missing: list[int] = []
            for (partition, some), answers in zip(batches, store.calls.all(calls), strict=True):
                pairs = zip(some, cast("list[object]", answers), strict=True)
                missing += [number for number, answer in pairs if not take(number, partition, answer)]
            numbers = missing
        return numbers

    layout = store.layouts.of(queue)
    if (missing := ask(layout, range(len(ids)))) and layout.exists:
        fresh = store.layouts.of(queue, fresh=True)
        if fresh.topology.epoch != layout.topology.epoch:
            ask(fresh, missing)
