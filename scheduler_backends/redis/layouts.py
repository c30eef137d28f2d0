"""Cache of queue layouts: reads them from the store, creates them and opens their gates."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from scheduler.errors import BackendError, TopologyError
from scheduler_backends.redis.calls import Call, Calls
from scheduler_backends.redis.client.node import Command
from scheduler_backends.redis.config import RedisConfig
from scheduler_backends.redis.errors import is_of_wrong_type, log, should_log
from scheduler_backends.redis.keys import Keys, Partition
from scheduler_backends.redis.layout import Layout, layout_of
from scheduler_backends.redis.scripts import CHANGE, OPEN_GATE, TOPOLOGY_CREATE, Script

ROUNDS = 5  # how many changes of a layout one call follows before it gives up
CACHED = 10_000  # layouts; when there are more, the cache is cleared


class Layouts:
    """
    Cache of the layouts of all queues. A layout is read when first needed, and again when it may have changed.

    Queues that do not exist are not cached: names may come from requests, so their number has no bound.

    Thread-safe: layouts are immutable, and single dictionary operations are atomic. A stale layout is safe: a worker
    only sees a new version later, and a producer is rejected by the sealed partition and reads the layout again.
    """

    def __init__(self, calls: Calls, keys: Keys, config: RedisConfig) -> None:
        self._calls = calls
        self._keys = keys
        self._config = config
        self._known: dict[str, Layout] = {}
        self._warned = False

    def of(self, queue: str, *, fresh: bool = False) -> Layout:
        """Return the layout of *queue*: read now if *fresh*, or if the cached one is missing or too old."""
        known = self._known.get(queue)
        if known is None or fresh or time.monotonic() - known.read_at > self._config.topology_interval:
            return self.read([queue])[queue]
        return known

    def known(self, queues: Iterable[str]) -> dict[str, Layout]:
        """Return the cached layouts of *queues*, of any age."""
        return {name: layout for name in queues if (layout := self._known.get(name)) is not None}

    def read(self, queues: Iterable[str], *, skip_damaged: bool = False) -> dict[str, Layout]:
        """
        Read the layouts of *queues* in one round trip and return them.

        Raises `TopologyError` for a damaged layout. With *skip_damaged* it is logged and left out instead.
        """
        keys = {name: self._keys.topology(name) for name in queues}
        answers = self._calls.run((), [Command(key, (b"HGETALL", key)) for key in keys.values()])
        layouts: dict[str, Layout] = {}
        for name, answer in zip(keys, answers, strict=True):
            try:
                layouts[name] = self.note(name, answer)
            except TopologyError as error:
                if not skip_damaged:
                    raise
                if should_log(str(error)):
                    log.error("%s; this queue is not served until that is repaired", error)
        return layouts

    def create(self, queue: str) -> Layout:
        """Return the layout of *queue*, which is created in the store if it does not exist."""
        # First, so that every queue with jobs is in the set of queues.
        self._calls.plain(Command(self._keys.queues, (b"SADD", self._keys.queues, queue.encode())))
        return self.change(TOPOLOGY_CREATE, queue, self._config.active_version, self._config.partitions)

    def change(self, script: Script, queue: str, *args: int) -> Layout:
        """Run *script* on the topology of *queue* and return the new layout."""
        return self.note(queue, self._calls.on_key(script, self._keys.topology(queue), *args))

    def open(self, layout: Layout, partitions: Iterable[Partition]) -> None:
        """Open the gates of *partitions*, all of one queue. A sealed gate stays sealed."""
        self.number_change(layout.topology.queue)
        self._calls.all([Call(OPEN_GATE, partition, (layout.pause,)) for partition in partitions])

    def number_change(self, queue: str) -> None:
        """
        Give *queue* the next change number. From it, all workers of the queue detect that the layout has changed.

        Called after the layout was written, and again before any gate is opened. So even if a process dies in between,
        no job enters a version before workers can detect that version.
        """
        self._calls.one(CHANGE, self._keys.shared, queue.encode())

    def note(self, queue: str, fields: object) -> Layout:
        """Cache and return the layout in *fields*, the answer of a command or script on the topology of *queue*."""
        if isinstance(fields, BackendError):
            if not is_of_wrong_type(fields):
                raise fields
            raise TopologyError(f"the topology of queue {queue!r} is damaged: its key is not a hash") from fields
        layout = layout_of(queue, _as_mapping(fields), self._keys, self._config)
        active = layout.topology.active
        is_new = queue not in self._known
        if is_new and not self._warned and layout.exists and active.partitions != self._config.partitions:
            self._warned = True
            message = "queue %r has %d partitions in its version %d, not the %d of RedisConfig; the store decides"
            log.warning(message, queue, active.partitions, active.version, self._config.partitions)
        if not layout.exists:
            self._known.pop(queue, None)
            return layout
        if is_new and len(self._known) >= CACHED:
            self._known.clear()
        self._known[queue] = layout
        return layout


def _as_mapping(fields: object) -> Mapping[bytes, bytes]:
    if isinstance(fields, dict):  # RESP3 returns maps
        return fields
    flat = cast("Sequence[bytes]", fields)
    return dict(zip(flat[::2], flat[1::2], strict=True))
