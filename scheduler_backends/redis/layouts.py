"""The layouts of queues, as this process has read them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import cast

from scheduler.errors import BackendError, TopologyError
from scheduler_backends.redis.calls import Call, Calls
from scheduler_backends.redis.client.router import Command
from scheduler_backends.redis.config import RedisConfig
from scheduler_backends.redis.errors import is_of_wrong_type, log, should_log
from scheduler_backends.redis.keys import Keys, Partition
from scheduler_backends.redis.layout import Layout, layout_of
from scheduler_backends.redis.scripts import CHANGE, OPEN_GATE, TOPOLOGY_CREATE

ROUNDS = 5  # how often a change of the layout is followed within one call
CACHED = 10_000  # layouts kept at hand besides those of queues that are served


class Layouts:
    """
    The layouts of all queues, read when first needed and whenever something shows that they have changed.

    A queue that does not exist is remembered only while it is served: names may come from requests, without end.

    Any thread: a layout is a value, and the dictionary's own operations are atomic. A stale layout is safe: a worker
    only sees a new version later, and a producer is rejected by the sealed partition and reads the layout again.
    """

    def __init__(self, calls: Calls, keys: Keys, config: RedisConfig) -> None:
        self._calls = calls
        self._keys = keys
        self._config = config
        self._known: dict[str, Layout] = {}
        self.served: frozenset[str] = frozenset()  # queues of which it matters that they were read again
        self.reading = 0  # grows whenever a layout that is served turns out to be another
        self._warned = False

    def of(self, queue: str, *, fresh: bool = False) -> Layout:
        """The layout of *queue*, read again where *fresh* says so, or where the one known is old or missing."""
        known = self._known.get(queue)
        if (
            known is None
            or not known.exists
            or fresh
            or time.monotonic() - known.read_at > self._config.topology_interval
        ):
            return self.read([queue])[queue]
        return known

    def known(self, queue: str) -> Layout | None:
        """What was read last, however old."""
        return self._known.get(queue)

    def all_known(self) -> list[str]:
        """The queues whose layouts were read."""
        return list(self._known)

    def read(self, queues: Iterable[str]) -> dict[str, Layout]:
        """The layouts of *queues* now, in one round trip; raises `TopologyError` for the first that is damaged."""
        layouts = self._read(queues)
        for layout in layouts.values():
            if isinstance(layout, TopologyError):
                raise layout
        return cast("dict[str, Layout]", layouts)

    def readable(self, queues: Iterable[str], *, served: bool = False) -> dict[str, Layout]:
        """
        The layouts of *queues* now, in one round trip, without those that are damaged, which are logged.

        served: those that do not exist are remembered too.
        """
        layouts = self._read(queues, served=served)
        for layout in layouts.values():
            if isinstance(layout, TopologyError) and should_log(str(layout)):
                log.error("%s; this queue is not served until that is mended", layout)
        return {name: layout for name, layout in layouts.items() if isinstance(layout, Layout)}

    def _read(self, queues: Iterable[str], *, served: bool = False) -> dict[str, Layout | TopologyError]:
        names = list(queues)
        answers = self._calls.run(
            (), [Command(self._keys.topology(name), (b"HGETALL", self._keys.topology(name))) for name in names]
        )
        layouts: dict[str, Layout | TopologyError] = {}
        for name, answer in zip(names, answers, strict=True):
            if isinstance(answer, BackendError) and not is_of_wrong_type(answer):
                raise answer
            try:
                layouts[name] = self.note(name, answer, served=served)
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
        return self.note(queue, fields)

    def open(self, layout: Layout, partitions: Iterable[Partition]) -> None:
        """Open the gates of *partitions* of one queue, which were never opened, or are sealed and stay so."""
        self.number_change(layout.topology.queue)
        self._calls.all([Call(OPEN_GATE, partition, (layout.pause,)) for partition in partitions])

    def number_change(self, queue: str) -> None:
        """
        Give *queue* the next number, by which all that serve it see that its layout has changed.

        It is given after the layout was written, and again before any gate is opened. So a job that entered a version
        did so after the number by which a worker learns of that version, whatever died in between.
        """
        self._calls.one(CHANGE, self._keys.shared, queue.encode())

    def note(self, queue: str, fields: object, *, served: bool = False) -> Layout:
        """Remember and return the layout that a script of this queue's topology has returned."""
        if isinstance(fields, BackendError):
            raise TopologyError(f"the topology of queue {queue!r} is damaged: its key is no hash") from fields
        layout = layout_of(queue, _as_mapping(fields), self._keys, self._config)
        known = self._known.get(queue)
        active = layout.topology.active
        if known is None and not self._warned and layout.exists and active.partitions != self._config.partitions:
            self._warned = True
            message = "queue %r has %d partitions in its version %d, not the %d of RedisConfig; the store decides"
            log.warning(message, queue, active.partitions, active.version, self._config.partitions)
        if layout.exists or served:
            self._known[queue] = layout
            while len(self._known) > CACHED + len(self.served):
                with suppress(RuntimeError, StopIteration):  # another thread was at it in between
                    self._known.pop(next(iter(self._known)), None)
        elif known is not None:
            self._known[queue] = layout
        is_other = known is not None and (known.exists, known.partitions) != (layout.exists, layout.partitions)
        if is_other or (known is None and queue in self.served):
            self.reading += 1
        return layout


def _as_mapping(fields: object) -> Mapping[bytes, bytes]:
    if isinstance(fields, dict):  # RESP3 has maps
        return fields
    flat = cast("Sequence[bytes]", fields)
    return dict(zip(flat[::2], flat[1::2], strict=True))
