"""The names of all keys: one group per partition, sharing a hash tag and so a cluster slot."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler_backends.redis.scripts import Script

SUFFIXES = {
    "meta": b"m",  # hash: gate, pause, due, tombs, closing
    "jobs": b"j",  # hash: id -> record
    "scheduled": b"s",  # sorted set, by level and due time
    "waiting": b"w",  # the same for retry_wait
    "ready0": b"r0",  # lists, one per level
    "ready1": b"r1",
    "ready2": b"r2",
    "ready3": b"r3",
    "tombs": b"t",  # hash: level:id -> dead entries in that list
    "leased": b"x",  # hash: id -> lease group
    "expiry": b"g",  # sorted set: lease group -> expiry
    "holding": b"i",  # hash: lease group -> worker, ids; how many are still held (prelude/groups.lua)
    "history": b"a",  # hash: id -> attempts, crashes, errors; only of jobs that failed or crashed
    "dead": b"d",  # sorted sets, by time of finishing
    "succeeded": b"f",
    "cancelled": b"c",
    "results": b"o",  # hash: id -> result
}
"""What a script calls a key of its partition -> how the key ends."""

READY = ("ready0", "ready1", "ready2", "ready3")

_ESCAPES = str.maketrans({":": "%3A", "%": "%25", "{": "%7B", "}": "%7D"})
_ESCAPES_IN_PREFIX = str.maketrans({"%": "%25", "{": "%7B", "}": "%7D"})


class Partition:
    """One partition of one version of one queue, and what every script call on it begins with."""

    __slots__ = ("_heads", "has_ready", "number", "queue", "tag", "version")

    def __init__(self, queue: str, version: int, number: int, tag: bytes) -> None:
        self.queue = queue
        self.version = version
        self.number = number
        self.tag = tag  # its slot, and the beginning of its keys
        self.has_ready = (b"EXISTS", *map(self.key, READY))  # a command: how many of the ready lists there are
        self._heads: dict[Script, tuple[bytes | int, ...]] = {}

    def __repr__(self) -> str:
        return f"<Partition {self.queue!r} v{self.version} p{self.number}>"

    def key(self, name: str) -> bytes:
        """The key that scripts call *name*."""
        return self.tag + b":" + SUFFIXES[name]

    def head(self, script: Script) -> tuple[bytes | int, ...]:
        """Number of keys and the keys that *script* declares."""
        head = self._heads.get(script)
        if head is None:
            head = (len(script.keys), *map(self.key, script.keys))
            self._heads[script] = head
        return head


class Keys:
    """Names keys below one prefix. Queue names are escaped, so that no two queues share a key or break a hash tag."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix.translate(_ESCAPES_IN_PREFIX)
        self._partitions: dict[tuple[str, int, int], Partition] = {}
        self._by_meta: dict[bytes, Partition] = {}

    @property
    def queues(self) -> bytes:
        """The set of known queues."""
        return f"{{{self._prefix}}}:queues".encode()

    def topology(self, queue: str) -> bytes:
        """The hash of a queue's versions."""
        return f"{{{self._queue(queue)}}}:topo".encode()

    def channel(self, queue: str) -> bytes:
        """The channel on which news of a queue are published."""
        return f"{self._queue(queue)}:wake".encode(errors="surrogatepass")

    def partition(self, queue: str, version: int, number: int) -> Partition:
        """The partition; the same object each time."""
        name = (queue, version, number)
        partition = self._partitions.get(name)
        if partition is None:
            # A forged lease may name a queue that none can have: its partition is one that nothing is in.
            tag = f"{{{self._queue(queue)}:v{version}:p{number}}}".encode(errors="surrogatepass")
            partition = self._partitions.setdefault(name, Partition(queue, version, number, tag))
            self._by_meta[partition.key("meta")] = partition
        return partition

    def of_meta(self, key: bytes) -> Partition | None:
        """The partition of which this is the key `meta`; None where it was not named here yet."""
        return self._by_meta.get(key)

    def _queue(self, queue: str) -> str:
        return f"{self._prefix}:{queue.translate(_ESCAPES)}"
