"""How each queue is laid out, as far as this process knows, and how it learns that this has changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import cast

from scheduler.errors import BackendError, BackendUnavailable, TopologyError
from scheduler.topology import QueueTopology, QueueVersion, VersionState, partition_of
from scheduler_backends.redis.calls import Call, Calls
from scheduler_backends.redis.config import RedisConfig
from scheduler_backends.redis.described import described
from scheduler_backends.redis.errors import is_news, is_of_wrong_type, log
from scheduler_backends.redis.keys import Keys, Partition
from scheduler_backends.redis.routing import Command
from scheduler_backends.redis.scripts import OPEN_GATE, TOPOLOGY_CREATE

ROUNDS = 5  # how often a change of the layout is followed within one call


@dataclass(frozen=True, slots=True)
class Layout:
    """A queue's versions and partitions as they were at one moment. exists: False = the store knows no such queue."""

    topology: QueueTopology
    exists: bool
    epoch: bytes | None  # as the store writes it, to be compared
    pause: bytes  # its number, ':', 1 or 0
    versions: tuple[tuple[Partition, ...], ...]  # each version's partitions, the active version first
    partitions: tuple[Partition, ...]  # all there are, by version and number
    read_at: float  # by time.monotonic()

    @property
    def drains(self) -> bool:
        """Whether there are versions besides the active one."""
        return len(self.versions) > 1

    def home(self, job_id: str) -> Partition:
        """Where a new job of this id goes."""
        partitions = self.versions[0]
        return partitions[partition_of(job_id, len(partitions))] if len(partitions) > 1 else partitions[0]

    def homes(self, job_id: str) -> list[Partition]:
        """Where a job of this id may stand: one partition a version, the active version's first."""
        return [partitions[partition_of(job_id, len(partitions))] for partitions in self.versions]


class Layouts:
    """
    The layouts of all queues, read when first needed and whenever something shows that they have changed.

    Any thread: a layout is a value, and the dictionary's own operations are atomic. A worker with an old layout is late
    for a new version, never wrong; a producer with an old one meets a sealed gate.
    """

    def __init__(self, calls: Calls, keys: Keys, config: RedisConfig) -> None:
        self._calls = calls
        self._keys = keys
        self._config = config
        self._known: dict[str, Layout] = {}
        self._warned = False

    def of(self, queue: str, *, fresh: bool = False) -> Layout:
        """The layout of *queue*, read anew where that is asked for or the one known is old."""
        known = self._known.get(queue)
        if known is None or fresh or time.monotonic() - known.read_at > self._config.topology_interval:
            return self.read([queue])[queue]
        return known

    def known(self, queue: str) -> Layout | None:
        """What was read last, however old."""
        return self._known.get(queue)

    def read(self, queues: Iterable[str]) -> dict[str, Layout]:
        """The layouts of *queues* now, in one round trip; raises `TopologyError` for the first that is damaged."""
        layouts = self._read(queues)
        for layout in layouts.values():
            if isinstance(layout, TopologyError):
                raise layout
        return cast("dict[str, Layout]", layouts)

    def readable(self, queues: Iterable[str]) -> dict[str, Layout]:
        """The layouts of *queues* now, in one round trip, without those that are damaged, which are logged."""
        layouts = self._read(queues)
        for layout in layouts.values():
            if isinstance(layout, TopologyError) and is_news(str(layout)):
                log.error("%s; this queue is not served until that is mended", layout)
        return {name: layout for name, layout in layouts.items() if isinstance(layout, Layout)}

    def _read(self, queues: Iterable[str]) -> dict[str, Layout | TopologyError]:
        names = list(queues)
        answers = self._calls.run(
            (), [Command(self._keys.topology(name), (b"HGETALL", self._keys.topology(name))) for name in names]
        )
        layouts: dict[str, Layout | TopologyError] = {}
        for name, answer in zip(names, answers, strict=True):
            if isinstance(answer, BackendError) and not is_of_wrong_type(answer):
                raise answer
            try:
                layouts[name] = self._note(name, answer)
            except TopologyError as error:
                layouts[name] = error
        return layouts

    def create(self, queue: str) -> Layout:
        """The layout of *queue*, created in the store where there is none."""
        # Listed first: a queue that has jobs is always known.
        self._calls.plain(Command(self._keys.queues, (b"SADD", self._keys.queues, queue.encode())))
        version, partitions = self._config.active_version, self._config.partitions
        try:
            fields = self._calls.on_key(TOPOLOGY_CREATE, self._keys.topology(queue), version, partitions)
        except BackendError as error:
            if not is_of_wrong_type(error):
                raise
            fields = error
        return self._note(queue, fields)

    def open(self, layout: Layout, partitions: Iterable[Partition]) -> None:
        """Open the gates of *partitions*, which were never opened, or are sealed and stay so."""
        self._calls.all([Call(OPEN_GATE, partition, (layout.pause,)) for partition in partitions])

    def noted(self, queue: str, fields: object) -> Layout:
        """The layout that a script of this queue's topology has answered, remembered."""
        return self._note(queue, fields)

    def sweep(
        self, queues: Sequence[str], ask: Callable[[Sequence[Partition]], Sequence[Call]]
    ) -> list[tuple[Call, object]]:
        """
        The calls on the partitions of *queues*, each with its answer; errors of the library stand in place of those.

        *ask* makes the calls for some partitions. The versions' epoch is read in the same round trip, so that a version
        or a queue that is new since the last call is not overlooked: its partitions are then asked in a further one.
        """
        results: list[tuple[Call, object]] = []
        asked: set[Partition] = set()
        layouts = {queue: self._known.get(queue) for queue in queues}
        unknown = [queue for queue, layout in layouts.items() if layout is None]
        if unknown:
            layouts.update(self.readable(unknown))
        queues = [queue for queue in queues if layouts[queue] is not None]
        for _ in range(ROUNDS):
            partitions = [
                partition
                for layout in layouts.values()
                if layout is not None and layout.exists
                for partition in layout.partitions
                if partition not in asked
            ]
            calls = ask(partitions) if partitions else []
            answers = self._calls.run(calls, [self._epoch_of(queue) for queue in queues])
            results.extend(zip(calls, answers, strict=False))
            asked.update(partitions)
            changed = []
            for queue, epoch in zip(queues, answers[len(calls) :], strict=True):
                if isinstance(epoch, BackendError) and not is_of_wrong_type(epoch):
                    if not results:
                        raise epoch
                elif epoch != cast("Layout", layouts[queue]).epoch:
                    changed.append(queue)
            if not changed:
                return results
            layouts = dict(self.readable(changed))  # a damaged one is served as it was known, and read again next time
            queues = list(layouts)
        raise BackendUnavailable("the layout of a queue changes faster than it can be read")

    def _epoch_of(self, queue: str) -> Command:
        key = self._keys.topology(queue)
        return Command(key, (b"HGET", key, b"epoch"))

    def _note(self, queue: str, fields: object) -> Layout:
        if isinstance(fields, BackendError):
            raise TopologyError(f"the topology of queue {queue!r} is damaged: its key is no hash") from fields
        layout = self._layout(queue, _as_mapping(fields))
        self._known[queue] = layout
        return layout

    def _layout(self, queue: str, fields: Mapping[bytes, bytes]) -> Layout:
        told = described(queue, fields)
        sizes = told.sizes
        exists = bool(sizes)
        active = told.active if exists else self._config.active_version
        if exists and not self._warned and queue not in self._known and sizes.get(active) != self._config.partitions:
            self._warned = True
            log.warning(
                "queue %r has %d partitions in its version %d, not the %d of RedisConfig; the store decides",
                queue,
                sizes.get(active, 0),
                active,
                self._config.partitions,
            )
        versions = tuple(
            QueueVersion(
                version=version,
                partitions=size,
                state=VersionState.ACTIVE if version == active else VersionState.DRAINING,
            )
            for version, size in sorted((sizes or {active: self._config.partitions}).items())
        )
        groups = [
            tuple(self._keys.partition(queue, one.version, number) for number in range(one.partitions))
            for one in versions
        ]
        return Layout(
            topology=QueueTopology(queue=queue, epoch=told.epoch, versions=versions),
            exists=exists,
            epoch=fields.get(b"epoch"),
            pause=told.pause,
            versions=tuple(sorted(groups, key=lambda group: group[0].version != active)),
            partitions=tuple(chain.from_iterable(groups)),
            read_at=time.monotonic(),
        )


def _as_mapping(fields: object) -> Mapping[bytes, bytes]:
    if isinstance(fields, dict):  # RESP3 has maps
        return fields
    flat = cast("Sequence[bytes]", fields)
    return dict(zip(flat[::2], flat[1::2], strict=True))
