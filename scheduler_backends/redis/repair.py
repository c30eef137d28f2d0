"""Repair of data damaged by hand: leases without an expiry, and jobs in no index."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import cast

from scheduler.errors import BackendError
from scheduler_backends.redis.calls import Call, successful_answers
from scheduler_backends.redis.errors import log, should_log
from scheduler_backends.redis.keys import READY, Partition
from scheduler_backends.redis.scripts import REPAIR, RESTORE, SEARCH
from scheduler_backends.redis.store import Store

SEARCHED = 200_000  # jobs: larger partitions are not searched for jobs in no index
STRIDE = 1_000  # entries or jobs in one call
REMEMBERED = 1_000  # partitions whose last search found nothing


def repair_some(store: Store, partitions: Sequence[Partition]) -> None:
    """Find and repair damage in *partitions*. Each call examines few jobs, so as not to block the server."""
    calls = [Call(REPAIR, one, (store.calls.now(), one.channel)) for one in partitions]
    for partition, answer in zip(partitions, successful_answers(store.calls.run(calls)), strict=True):
        if answer is not None:
            _repair_partition(store, partition, cast("tuple[int, int, int, bytes]", answer))


def _repair_partition(store: Store, partition: Partition, answer: tuple[int, int, int, bytes]) -> None:
    freed, missing, total, since = answer
    if freed:
        log.warning("%r was damaged: %d leases had no expiry and expire now", partition, freed)
    if not missing or store.fruitless_searches.get(partition.tag) == missing:
        return
    if total > SEARCHED:
        if should_log(f"{partition!r}: too many to search"):
            message = "%r was damaged: %d jobs are in no index, and %d jobs are too many to search for them"
            log.warning(message, partition, missing, total)
        return
    try:
        again = _restore(store, partition, since)
    except BackendError as error:
        if should_log(f"{partition!r}: {error}"):
            log.warning("%r: jobs that are in no index could not be searched for: %s", partition, error)
        return
    if again > 0:
        log.warning("%r was damaged: %d jobs were in no index and are ready again", partition, again)
    elif again == 0:  # the counts themselves are damaged: do not search again for the same number
        if len(store.fruitless_searches) >= REMEMBERED:
            store.fruitless_searches.clear()
        store.fruitless_searches[partition.tag] = missing


def _restore(store: Store, partition: Partition, since: bytes) -> int:
    """Make up to `STRIDE` jobs that are in no index ready. Return how many; negative if the lists changed too fast."""
    found: set[bytes] = set()  # in no index, except perhaps a list of ready jobs
    place = b"0"
    while True:
        place, ids = cast("tuple[bytes, list[bytes]]", store.calls.one(SEARCH, partition, place))
        found.update(ids)
        if place == b"0":
            break
    for name in READY:
        for passed in range(0, 2 * SEARCHED, STRIDE):  # from the end, so that no push or pop makes this skip an entry
            words = (b"LRANGE", partition.key(name), -passed - STRIDE, -passed - 1)
            (entries,) = cast("list[list[bytes]]", store.calls.all([Call(None, partition, words)]))
            found.difference_update(entry[6:] for entry in entries)
            if len(entries) < STRIDE:
                break
    if not found:
        return 0
    some = (store.calls.now(), partition.channel, since, *itertools.islice(found, STRIDE))
    return cast("int", store.calls.one(RESTORE, partition, *some))
