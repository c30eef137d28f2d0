"""
Changing the versions of a queue while it is in use.

No job can be stranded, for these reasons:

- The gate of a partition only changes from absent to open to sealed.
- A new job enters only while the gate is open, and the script that stores it checks the gate.
- Every other move stays inside the partition. So a partition that is sealed and empty remains empty, and the partitions
  can be checked one after the other.
- A version is removed only after all its partitions were found sealed and empty. Until then, workers serve it.

No step needs two cluster slots at once.
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

BATCH = 200  # finished jobs that one step moves or deletes
CLOSING = 60_000  # milliseconds for which requeue is refused; every step renews them, and after a crash they run out

_FINISHED = (JobState.SUCCEEDED, JobState.DEAD, JobState.CANCELLED)


def seal(store: Store, partitions: Sequence[Partition], owner: bytes = b"", *, closing: int = 0) -> dict[JobState, int]:
    """
    Seal *partitions* against new jobs, and return the number of their jobs by state.

    Args:
        store: The store of the partitions.
        partitions: Partitions of one version.
        owner: The completion of the version that refuses requeue, if any. Only the same owner can end the refusal.
        closing: Milliseconds from now for which requeue is refused. 0 = the refusal of *owner* ends.
    """
    rows: dict[Partition, list[int]] = {}
    left = list(partitions)
    while left:
        answers = store.calls.all([Call(SEAL, one, (store.calls.now(), owner, closing)) for one in left])
        rows.update(zip(left, cast("list[list[int]]", answers), strict=True))
        left = [one for one in left if rows[one][-1]]
    return {state: sum(row[place] for row in rows.values()) for place, state in enumerate(COUNTED)}


def stop_closing(store: Store, partitions: Sequence[Partition], owner: bytes) -> None:
    """End the refusal of requeue by *owner*. A failure is only logged."""
    try:
        seal(store, partitions, owner)
    except BackendError as error:  # the refusal runs out anyway, and must not hide an earlier error
        log.warning("requeue is still refused for up to %d s: %s", CLOSING // 1000, error)


def remove_finished(
    store: Store, queue: str, partitions: Sequence[Partition], finished: Finished, owner: bytes
) -> None:
    """
    Delete the finished jobs of a version, or move them to the active version.

    Args:
        store: The store of the queue.
        queue: The queue of the version.
        partitions: The sealed partitions of the version.
        finished: "purge" = delete the jobs, otherwise move them.
        owner: The completion whose refusal of requeue each step renews.
    """
    for partition in partitions:
        seal(store, [partition], owner, closing=CLOSING)  # the partitions before it may have taken long
        for state in _FINISHED:
            while _purge(store, partition, state) if finished == "purge" else _move(store, queue, partition, state):
                seal(store, [partition], owner, closing=CLOSING)


def _purge(store: Store, partition: Partition, state: JobState) -> int:
    gone, _ = cast("tuple[int, int]", store.calls.one(PURGE, partition, state.encode(), BATCH))
    return gone


def _move(store: Store, queue: str, partition: Partition, state: JobState) -> int:
    """
    Move up to `BATCH` finished jobs to the active version. Return how many entries were removed here.

    Entries whose record was removed by hand are removed as well, since `LIST` returns only the others of a page.
    """
    answer = store.calls.one(LIST, partition, state.encode(), BATCH, b"", b"", b"")
    _, score, _, _, *flat = cast("list[int | bytes | list[bytes]]", answer)
    if not score:  # there is no entry
        return 0
    views = {cast("bytes", raw): cast("list[bytes]", view) for raw, view in zip(flat[::2], flat[1::2], strict=True)}
    if views:
        import_finished(store, queue, views)
    return cast("int", store.calls.one(DELETE_MOVED, partition, state.encode(), BATCH, *views))


def import_finished(store: Store, queue: str, views: Mapping[bytes, Sequence[bytes]]) -> None:
    """Store finished jobs in the active version of *queue*. *views*: what prelude/view.lua returns, by id."""
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
        for (target, some), is_open in zip(by_partition.items(), store.calls.all(calls), strict=True):
            if is_open:
                for raw in some:
                    del left[raw]
            else:
                shut.append(target)
        if not left:
            return
        store.layouts.open(layout, shut)
    raise BackendUnavailable("the queue's versions change faster than finished jobs can be moved")


def publish_change(store: Store, queue: str) -> None:
    """Notify the waiters of *queue* that its versions have changed."""
    channel = store.keys.channel(queue)
    store.calls.run((), [Command(channel, (b"PUBLISH", channel, b"versions"))])  # may fail: an ACL may forbid it
