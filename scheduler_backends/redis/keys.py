"""The names of all keys: one group per partition, sharing a hash tag and so a cluster slot."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler_backends.redis.scripts import Script

SUFFIXES = {
    "meta": b"m",  # hash: gate, pause, due, tombstones, closing, repair
    "jobs": b"j",  # hash: id -> record
    "scheduled": b"s",  # sorted set, by level and due time
    "waiting": b"w",  # the same for retry_wait
    "ready0": b"r0",  # lists, one per level
    "ready1": b"r1",
    "ready2": b"r2",
    "ready3": b"r3",
    "tombstones": b"t",  # hash: level:id -> dead entries in that list
    "leased": b"x",  # hash: id -> lease group
    "expiry": b"g",  # sorted set: lease group -> expiry
    "lease_members": b"i",  # hash: lease group -> worker, ids; how many are still held (prelude/groups.lua)
    "history": b"a",  # hash: id -> attempts, crashes, errors; only of jobs that failed or crashed
    "dead": b"d",  # sorted sets, by time of finishing
    "succeeded": b"f",
    "cancelled": b"c",
    "results": b"o",  # hash: id -> result
    # Hashes for a later release, id -> what it keeps; so far they are only deleted with their partition.
    "cancel_marks": b"stop",  # that a leased job is to be cancelled
    "successors": b"next",  # the record that takes the place of a job when its lease ends
    "notes": b"note",  # what a handler has noted last, such as its progress
}
"""What a script calls a key of its partition -> how the key ends."""

SHARED = {
    "changes": b"changes",  # sorted set: queue -> when its layout changed last, as a number that grows
    "leases": b"leases",  # sorted set: partition -> not before when its first lease expires, us
}
"""The same for the keys that all queues of a prefix share, in a slot of their own."""

_ENDS = SUFFIXES | SHARED

READY = ("ready0", "ready1", "ready2", "ready3")
CACHED = 16_384  # partitions kept at hand, some 1 KB each; others are made again, in some microseconds

_ESCAPES = str.maketrans({":": "%3A", "%": "%25", "{": "%7B", "}": "%7D"})
_ESCAPES_IN_PREFIX = str.maketrans({"%": "%25", "{": "%7B", "}": "%7D"})


class Partition:
    """One partition of one version of one queue, and what every script call on it begins with."""

    __slots__ = ("_heads", "channel", "number", "queue", "tag", "version")

    def __init__(self, queue: str, version: int, number: int, tag: bytes, channel: bytes = b"") -> None:
        self.queue = queue
        self.version = version
        self.number = number
        self.tag = tag  # its slot, and the beginning of its keys
        self.channel = channel  # on which notifications of its queue are published
        self._heads: dict[Script, tuple[bytes | int, ...]] = {}

    def __repr__(self) -> str:
        return f"<Partition {self.queue!r} v{self.version} p{self.number}>"

    def key(self, name: str) -> bytes:
        """The key that scripts call *name*."""
        return self.tag + b":" + _ENDS[name]

    def has_ready(self) -> tuple[bytes, ...]:
        """A command: how many of the ready lists there are."""
        return (b"EXISTS", *map(self.key, READY))

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
        self.shared = Partition("", 0, 0, f"{{{self._prefix}}}".encode())
        """For calls on the keys that all queues share: a slot that belongs to no queue."""

    @property
    def queues(self) -> bytes:
        """The set of known queues."""
        return f"{{{self._prefix}}}:queues".encode()

    def topology(self, queue: str) -> bytes:
        """The hash of a queue's versions."""
        return f"{{{self._queue(queue)}}}:topo".encode()

    def channel(self, queue: str) -> bytes:
        """The channel on which a queue's notifications are published."""
        return f"{self._queue(queue)}:wake".encode()

    def partition(self, queue: str, version: int, number: int) -> Partition:
        """The partition. The same object each time, unless very many others were used since."""
        name = (queue, version, number)
        partition = self._partitions.get(name)
        if partition is None:
            partition = self._partitions.setdefault(name, self.new_partition(queue, version, number))
            while len(self._partitions) > CACHED:
                with suppress(RuntimeError, StopIteration):  # another thread was at it in between
                    self._partitions.pop(next(iter(self._partitions)), None)
        return partition

    def new_partition(self, queue: str, version: int, number: int) -> Partition:
        """The partition, without keeping it at hand."""
        tag = f"{{{self._queue(queue)}:v{version}:p{number}}}".encode()
        return Partition(queue, version, number, tag, self.channel(queue))

    def _queue(self, queue: str) -> str:
        return f"{self._prefix}:{queue.translate(_ESCAPES)}"
