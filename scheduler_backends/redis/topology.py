"""
Changing a queue's versions while it is in use.

Why nothing can be stranded: a partition's gate only goes from absent to open to sealed; a new job enters while the gate
is open, in the same script that looks; every other move stays inside the partition, so one that is sealed and empty is
so for ever, and the partitions may be looked at one after the other; and a version leaves the list only after all its
partitions were seen so. Until then every worker looks into it. No step needs two slots at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from secrets import token_hex
from typing import cast

from scheduler.abilities import Finished
from scheduler.errors import BackendError, BackendUnavailable, ConfigError, TopologyError
from scheduler.limits import MAX_COUNT, check_count, check_name
from scheduler.states import LIVE, JobState
from scheduler.topology import MAX_PARTITIONS, QueueTopology
from scheduler_backends.redis.calls import Call, Calls
from scheduler_backends.redis.errors import log
from scheduler_backends.redis.keys import Keys, Partition
from scheduler_backends.redis.layout import Layout
from scheduler_backends.redis.layouts import ROUNDS, Layouts
from scheduler_backends.redis.nodes import Word
from scheduler_backends.redis.routing import Command
from scheduler_backends.redis.scripts import (
    CLEAR,
    DELETE_MOVED,
    IMPORT_FINISHED,
    LIST,
    PURGE,
    SEAL,
    TOPOLOGY_PROMOTE,
    TOPOLOGY_REMOVE,
)

BATCH = 200  # finished jobs moved in one step
CLOSING = 60_000  # milliseconds for which requeue is refused; every step renews it, and a crash ends it by itself

_COUNTED = (
    JobState.SCHEDULED,
    JobState.READY,
    JobState.LEASED,
    JobState.RETRY_WAIT,
    JobState.SUCCEEDED,
    JobState.DEAD,
    JobState.CANCELLED,
)  # in the order of seal.lua
_FINISHED = (JobState.SUCCEEDED, JobState.DEAD, JobState.CANCELLED)


class Admin:
    """Promotes and completes versions. Any thread."""

    def __init__(self, calls: Calls, layouts: Layouts, keys: Keys) -> None:
        self._calls = calls
        self._layouts = layouts
        self._keys = keys

    def topology(self, queue: str) -> QueueTopology:
        """As `TopologyAdmin.topology`."""
        return self._layouts.of(check_name("queue", queue, ConfigError), fresh=True).topology

    def promote(self, queue: str, version: int, partitions: int) -> QueueTopology:
        """As `TopologyAdmin.promote_queue_version`."""
        check_name("queue", queue, ConfigError)
        check_count("version", version, at_least=1, at_most=MAX_COUNT)
        check_count("partitions", partitions, at_least=1, at_most=MAX_PARTITIONS)
        self._layouts.create(queue)
        answer = self._calls.on_key(TOPOLOGY_PROMOTE, self._keys.topology(queue), version, partitions)
        reason, fields = cast("tuple[bytes, list[bytes]]", answer)
        layout = self._layouts.noted(queue, fields)
        if reason:
            raise TopologyError(f"queue {queue!r}: {reason.decode()}")
        self._layouts.tell(queue)
        # A kindness to producers, who learn of it so at once. What is not sealed now is when the version is completed.
        try:
            for partitions_of_version in layout.versions[1:]:
                self._seal(partitions_of_version)
        except BackendError as error:
            log.warning("the older versions of queue %r could not be sealed yet: %s", queue, error)
        self._tell(queue)
        return layout.topology

    def complete(self, queue: str, version: int, finished: Finished) -> QueueTopology:
        """As `TopologyAdmin.complete_draining_version`."""
        check_name("queue", queue, ConfigError)
        check_count("version", version, at_least=1, at_most=MAX_COUNT)
        if finished not in ("refuse", "purge", "move"):
            raise ConfigError("finished", "must be 'refuse', 'purge' or 'move'")
        layout = self._layouts.of(queue, fresh=True)
        if version == layout.topology.active.version:
            raise TopologyError(f"version {version} of queue {queue!r} is the active one; promote another first")
        partitions = _of_version(layout, version)
        if not partitions:
            if version > max(one.version for one in layout.topology.versions):
                raise TopologyError(f"queue {queue!r} has never had a version {version}")
            return layout.topology
        owner = token_hex(8).encode()
        try:
            in_the_way = frozenset(JobState) if finished == "refuse" else LIVE
            self._refuse_if_any(queue, version, self._seal(partitions, owner, closing=CLOSING), in_the_way)
            for _ in range(ROUNDS):
                if finished != "refuse":
                    self._empty(queue, partitions, finished, owner)
                counts = self._seal(partitions, owner, closing=CLOSING)
                if not any(counts.values()):
                    break
            self._refuse_if_any(queue, version, counts, frozenset(JobState))
        finally:
            self._stop_closing(partitions, owner)
        fields = self._calls.on_key(TOPOLOGY_REMOVE, self._keys.topology(queue), version)
        layout = self._layouts.noted(queue, fields)
        self._layouts.tell(queue)
        self._calls.run([Call(CLEAR, partition, ()) for partition in partitions])  # what it leaves does no harm
        self._tell(queue)
        return layout.topology

    def _seal(self, partitions: Sequence[Partition], owner: bytes = b"", *, closing: int = 0) -> dict[JobState, int]:
        """
        Let no job in any more; answers how many are there, by state.

        owner: the completion for which requeue is refused for *closing* ms more. Nobody else ends that.
        """
        rows: dict[Partition, list[int]] = {}
        left = list(partitions)
        while left:
            answers = self._calls.all([Call(SEAL, one, (self._calls.now(), owner, closing)) for one in left])
            rows.update(zip(left, cast("list[list[int]]", answers), strict=True))
            left = [one for one in left if rows[one][-1]]
        return {state: sum(row[place] for row in rows.values()) for place, state in enumerate(_COUNTED)}

    def _refuse_if_any(
        self, queue: str, version: int, counts: Mapping[JobState, int], states: frozenset[JobState]
    ) -> None:
        there = {state.value: count for state, count in counts.items() if count and state in states}
        if there:
            told = ", ".join(f"{count} {state}" for state, count in there.items())
            raise TopologyError(f"version {version} of queue {queue!r} still holds jobs: {told}", counts=there)

    def _stop_closing(self, partitions: Sequence[Partition], owner: bytes) -> None:
        try:
            self._seal(partitions, owner)
        except BackendError as error:  # it ends by itself, and must not hide what went wrong before
            log.warning("requeue stays refused for up to %d s: %s", CLOSING // 1000, error)

    def _empty(self, queue: str, partitions: Sequence[Partition], finished: Finished, owner: bytes) -> None:
        for partition in partitions:
            self._seal([partition], owner, closing=CLOSING)  # those before it may have taken long
            for state in _FINISHED:
                while self._purge(partition, state) if finished == "purge" else self._move(queue, partition, state):
                    self._seal([partition], owner, closing=CLOSING)

    def _purge(self, partition: Partition, state: JobState) -> int:
        gone, _ = cast("tuple[int, int]", self._calls.one(PURGE, partition, state.encode(), BATCH))
        return gone

    def _move(self, queue: str, partition: Partition, state: JobState) -> int:
        """Bring some finished jobs to the active version, then delete them here; answers how many."""
        start = (b"", b"", b"")
        answer = self._calls.one(LIST, partition, state.encode(), BATCH, *start)
        flat = cast("list[int | bytes | list[bytes]]", answer)[1 + len(start) :]
        views = {cast("bytes", raw): cast("list[bytes]", view) for raw, view in zip(flat[::2], flat[1::2], strict=True)}
        if not views:
            return 0
        self._bring(queue, views)
        return cast("int", self._calls.one(DELETE_MOVED, partition, state.encode(), *views))

    def _bring(self, queue: str, views: Mapping[bytes, Sequence[bytes]]) -> None:
        left = dict(views)
        for _ in range(ROUNDS):
            layout = self._layouts.of(queue, fresh=True)
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
            for (target, some), brought in zip(by_partition.items(), self._calls.all(calls), strict=True):
                if brought:
                    for raw in some:
                        del left[raw]
                else:
                    shut.append(target)
            if not left:
                return
            self._layouts.open(layout, shut)
        raise BackendUnavailable("the queue's versions change faster than finished jobs can be moved along")

    def _tell(self, queue: str) -> None:
        channel = self._keys.channel(queue)
        self._calls.run((), [Command(channel, (b"PUBLISH", channel, b"versions"))])  # an ACL may lack the channel


def _of_version(layout: Layout, version: int) -> tuple[Partition, ...]:
    return next((one for one in layout.versions if layout.exists and one[0].version == version), ())
