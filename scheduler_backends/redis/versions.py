"""
Changing a queue's versions while it is in use.

Why nothing can be stranded: a partition's gate only goes from absent to open to sealed; a new job enters while the gate
is open, in the same script that looks; every other move stays inside the partition, so one that is sealed and empty is
so for ever, and the partitions may be looked at one after the other; and a version leaves the list only after all its
partitions were seen so. Until then every worker looks into it. No step needs two slots at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from scheduler.abilities import Finished
from scheduler.errors import BackendError, BackendUnavailable
from scheduler.states import JobState
from scheduler_backends.redis.calls import Call
from scheduler_backends.redis.client.node import Command, Word
from scheduler_backends.redis.errors import log
from scheduler_backends.redis.keys import Partition
from scheduler_backends.redis.layouts import ROUNDS
from scheduler_backends.redis.scripts import COUNTED, DELETE_MOVED, IMPORT_FINISHED, LIST, PURGE, SEAL
from scheduler_backends.redis.store import Store

BATCH = 200  # finished jobs moved in one step
CLOSING = 60_000  # milliseconds for which requeue is refused; every step renews it, and a crash ends it by itself

_FINISHED = (JobState.SUCCEEDED, JobState.DEAD, JobState.CANCELLED)


def seal(store: Store, partitions: Sequence[Partition], owner: bytes = b"", *, closing: int = 0) -> dict[JobState, int]:
    """
    Let no job in any more, and return how many are there, by state.

    owner: the completion for which requeue is refused for *closing* ms more. Only that completion ends it.
    """
    rows: dict[Partition, list[int]] = {}
    left = list(partitions)
    while left:
        answers = store.calls.all([Call(SEAL, one, (store.calls.now(), owner, closing)) for one in left])
        rows.update(zip(left, cast("list[list[int]]", answers), strict=True))
        left = [one for one in left if rows[one][-1]]
    return {state: sum(row[place] for row in rows.values()) for place, state in enumerate(COUNTED)}


def stop_closing(store: Store, partitions: Sequence[Partition], owner: bytes) -> None:
    """Allow requeue again, as far as *owner* is concerned."""
    try:
        seal(store, partitions, owner)
    except BackendError as error:  # it ends by itself, and must not hide what went wrong before
        log.warning("requeue stays refused for up to %d s: %s", CLOSING // 1000, error)


def remove_finished(
    store: Store, queue: str, partitions: Sequence[Partition], finished: Finished, owner: bytes
) -> None:
    """Delete the finished jobs of a version, or move them to the active one."""
    for partition in partitions:
        seal(store, [partition], owner, closing=CLOSING)  # those before it may have taken long
        for state in _FINISHED:
            while _purge(store, partition, state) if finished == "purge" else _move(store, queue, partition, state):
                seal(store, [partition], owner, closing=CLOSING)


def _purge(store: Store, partition: Partition, state: JobState) -> int:
    gone, _ = cast("tuple[int, int]", store.calls.one(PURGE, partition, state.encode(), BATCH))
    return gone


def _move(store: Store, queue: str, partition: Partition, state: JobState) -> int:
    """Bring some finished jobs to the active version, then delete them here. Return how many."""
    start = (b"", b"", b"")
    answer = store.calls.one(LIST, partition, state.encode(), BATCH, *start)
    flat = cast("list[int | bytes | list[bytes]]", answer)[1 + len(start) :]
    views = {cast("bytes", raw): cast("list[bytes]", view) for raw, view in zip(flat[::2], flat[1::2], strict=True)}
    if not views:
        return 0
    bring(store, queue, views)
    return cast("int", store.calls.one(DELETE_MOVED, partition, state.encode(), *views))


def bring(store: Store, queue: str, views: Mapping[bytes, Sequence[bytes]]) -> None:
    """Store finished jobs, given by id as prelude/view.lua returns them, in the active version of *queue*."""
    left = dict(views)
    for _ in range(ROUNDS):
        layout = store.layouts.of(queue, fresh=True)
        by_partition: dict[Partition, list[bytes]] = {}
        for raw in left:
            by_partition.setdefault(layout.home(raw.decode(errors="replace")), []).append(raw)
        calls = []
        for target, some in by_partition.items():
            args: list[Word] = []
            for raw in some:
                name, record, past, time_ms, _, result = left[raw]
                args += (raw, name, time_ms, record, past, result)
            calls.append(Call(IMPORT_FINISHED, target, tuple(args)))
        shut = []
        for (target, some), brought in zip(by_partition.items(), store.calls.all(calls), strict=True):
            if brought:
                for raw in some:
                    del left[raw]
            else:
                shut.append(target)
        if not left:
            return
        store.layouts.open(layout, shut)
    raise BackendUnavailable("the queue's versions change faster than finished jobs can be moved along")


def publish_change(store: Store, queue: str) -> None:
    """Notify the waiters of *queue* that its versions have changed."""
    channel = store.keys.channel(queue)
    store.calls.run((), [Command(channel, (b"PUBLISH", channel, b"versions"))])  # an ACL may lack the channel
