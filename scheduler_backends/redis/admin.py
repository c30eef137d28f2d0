"""Administration: cancel and requeue jobs by id; pause, resume and purge a queue; change its versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from secrets import token_hex
from typing import cast

from scheduler.abilities import Finished
from scheduler.errors import BackendError, ConfigError, TopologyError
from scheduler.leases import MoveAnswer
from scheduler.limits import check_queue
from scheduler.states import LIVE, JobState
from scheduler.topology import QueueTopology, check_partitions, check_version
from scheduler_backends.redis.by_id import call_on_ids
from scheduler_backends.redis.calls import Call
from scheduler_backends.redis.client.node import Word
from scheduler_backends.redis.errors import log
from scheduler_backends.redis.keys import Partition
from scheduler_backends.redis.layouts import ROUNDS
from scheduler_backends.redis.scripts import (
    CANCEL,
    CLEAR,
    PAUSE,
    PURGE,
    REQUEUE,
    SLICE,
    TOPOLOGY_PAUSE,
    TOPOLOGY_PROMOTE,
    TOPOLOGY_REMOVE,
    Script,
)
from scheduler_backends.redis.store import Store
from scheduler_backends.redis.versions import CLOSING, publish_change, remove_finished, seal, stop_closing


class AdminHooks:
    """Hooks of the administrative methods, and the ability `TopologyAdmin`."""

    _store: Store

    def _cancel(self, queue: str, ids: Sequence[str]) -> Sequence[MoveAnswer]:
        store = self._store
        kept = int(store.retention.cancelled > 0)
        return _by_id(store, queue, ids, CANCEL, (store.calls.now(), kept))

    def _requeue(self, queue: str, ids: Sequence[str]) -> Sequence[MoveAnswer]:
        """Requeue dead jobs. Refused in a version that is being completed."""
        store = self._store
        return _by_id(store, queue, ids, REQUEUE, (store.calls.now(), store.keys.channel(queue)))

    def _pause(self, queue: str) -> None:
        _set_paused(self._store, queue, paused=True)

    def _resume(self, queue: str) -> None:
        _set_paused(self._store, queue, paused=False)

    def _purge(self, queue: str, state: JobState, limit: int) -> int:
        store = self._store
        gone = 0
        for partition in store.layouts.of(queue, fresh=True).partitions:
            while gone < limit:
                share = min(limit - gone, SLICE)
                went, more = cast("tuple[int, int]", store.calls.one(PURGE, partition, state.encode(), share))
                gone += went
                if not more:
                    break
        return gone

    def topology(self, queue: str) -> QueueTopology:
        """Return the current versions of *queue*. For a queue that does not exist, those it would be created with."""
        return self._store.layouts.of(check_queue(queue), fresh=True).topology

    def promote_queue_version(self, queue: str, version: int, partitions: int) -> QueueTopology:
        """
        Make *version* the active one; all older versions drain. See `TopologyAdmin`.

        Producers detect the change when a sealed partition rejects a job, workers at their next poll.
        """
        store = self._store
        queue, version, partitions = check_queue(queue), check_version(version), check_partitions(partitions)
        store.layouts.create(queue)
        answer = store.calls.on_key(TOPOLOGY_PROMOTE, store.keys.topology(queue), version, partitions)
        reason, fields = cast("tuple[bytes, object]", answer) if isinstance(answer, list) else (b"", answer)
        layout = store.layouts.note(queue, fields)
        if reason:
            raise TopologyError(f"queue {queue!r}: {reason.decode()}")
        store.layouts.number_change(queue)
        # So that producers detect the change at once. A partition that cannot be sealed now is sealed on completion.
        try:
            for partitions_of_version in layout.versions[1:]:
                seal(store, partitions_of_version)
        except BackendError as error:
            log.warning("the older versions of queue %r could not be sealed yet: %s", queue, error)
        publish_change(store, queue)
        return layout.topology

    def complete_draining_version(self, queue: str, version: int, *, finished: Finished = "refuse") -> QueueTopology:
        """
        Remove a draining *version* that has no jobs. See `TopologyAdmin`.

        While this runs, requeue refuses the dead jobs of the version.
        """
        store = self._store
        queue, version = check_queue(queue), check_version(version)
        if finished not in ("refuse", "purge", "move"):
            raise ConfigError("finished", "must be 'refuse', 'purge' or 'move'")
        layout = store.layouts.of(queue, fresh=True)
        if version == layout.topology.active.version:
            raise TopologyError(f"version {version} of queue {queue!r} is the active one; promote another first")
        partitions = next((one for one in layout.versions if layout.exists and one[0].version == version), ())
        if not partitions:
            if version > max(one.version for one in layout.topology.versions):
                raise TopologyError(f"queue {queue!r} has never had a version {version}")
            return layout.topology
        owner = token_hex(8).encode()
        try:
            in_the_way = frozenset(JobState) if finished == "refuse" else LIVE
            _refuse_if_any(queue, version, seal(store, partitions, owner, closing=CLOSING), in_the_way)
            for _ in range(ROUNDS):
                if finished != "refuse":
                    remove_finished(store, queue, partitions, finished, owner)
                counts = seal(store, partitions, owner, closing=CLOSING)
                if not any(counts.values()):
                    break
            _refuse_if_any(queue, version, counts, frozenset(JobState))
        finally:
            stop_closing(store, partitions, owner)
        layout = store.layouts.change(TOPOLOGY_REMOVE, queue, version)
        store.layouts.number_change(queue)
        store.calls.run([Call(CLEAR, partition, ()) for partition in partitions])  # keys that remain do no harm
        publish_change(store, queue)
        return layout.topology


def _refuse_if_any(queue: str, version: int, counts: Mapping[JobState, int], states: frozenset[JobState]) -> None:
    there = {state.value: count for state, count in counts.items() if count and state in states}
    if there:
        listed = ", ".join(f"{count} {state}" for state, count in there.items())
        raise TopologyError(f"version {version} of queue {queue!r} still holds jobs: {listed}", counts=there)


def _set_paused(store: Store, queue: str, *, paused: bool) -> None:
    """
    Pause or resume *queue*: first in its topology, then in each partition.

    The order matters: a partition that is opened later copies the state from the topology. The layout is read again
    after the partitions were written, so that a version added meanwhile is handled as well.
    """
    store.layouts.create(queue)
    layout = store.layouts.change(TOPOLOGY_PAUSE, queue, int(paused))
    channel = store.keys.channel(queue)
    done: set[Partition] = set()
    for _ in range(ROUNDS):
        todo = [partition for partition in layout.partitions if partition not in done]
        if not todo:
            return
        store.calls.all([Call(PAUSE, partition, (layout.pause, channel)) for partition in todo])
        done.update(todo)
        layout = store.layouts.of(queue, fresh=True)


def _by_id(
    store: Store, queue: str, ids: Sequence[str], script: Script, head: tuple[Word, ...]
) -> Sequence[MoveAnswer]:
    answers = [MoveAnswer(id=id, moved=False, state=None) for id in ids]

    def take(number: int, _: Partition, word: object) -> bool:
        if word:
            state = _TARGETS[script] if word == b"!" else JobState(cast("bytes", word).decode())
            answers[number] = MoveAnswer(id=ids[number], moved=word == b"!", state=state)
        return bool(word)

    call_on_ids(store, queue, ids, script, head, take=take)
    return answers


_TARGETS = {CANCEL: JobState.CANCELLED, REQUEUE: JobState.READY}
