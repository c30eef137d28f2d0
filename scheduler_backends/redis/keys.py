"""Names of all keys. The keys of a partition share a hash tag, and so a cluster slot."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler_backends.redis.scripts import Script

SUFFIXES = {
    "meta": b"m",  # hash: gate, pause, due, tombstones, closing, repair
    "jobs": b"j",  # hash: id -> record
    "scheduled": b"s",  # sorted set of ids, by level and due time
    "waiting": b"w",  # the same for jobs in retry_wait
    "ready0": b"r0",  # lists, one per level
    "ready1": b"r1",
    "ready2": b"r2",
    "ready3": b"r3",
    "tombstones": b"t",  # hash: level:id -> number of dead entries in that list
    "leased": b"x",  # hash: id -> lease group
    "expiry": b"g",  # sorted set: lease group -> expiry
    "lease_members": b"i",  # hash: lease group -> worker, ids, number still held (prelude/groups.lua)
    "history": b"a",  # hash: id -> attempts, crashes, errors; only for jobs that failed or crashed
    "dead": b"d",  # sorted sets of ids, by finish time
    "succeeded": b"f",
    "cancelled": b"c",
    "results": b"o",  # hash: id -> result
    # Hashes by id, for a later release. So far they are only deleted with their partition.
    "cancel_marks": b"stop",  # requests to cancel a leased job
    "successors": b"next",  # the record that replaces a job when its lease ends
    "notes": b"note",  # the last note of a handler, such as its progress
}
"""Maps the name of a key in scripts to its suffix: the keys of a partition."""

SHARED = {
    "changes": b"changes",  # sorted set: queue -> number of its last layout change
    "leases": b"leases",  # sorted set: partition -> lower bound of its first lease expiry, us
}
"""The same for the keys shared by all queues of a prefix, in a slot of their own."""

_ENDS = SUFFIXES | SHARED

READY = ("ready0", "ready1", "ready2", "ready3")
CACHED = 16_384  # partitions, about 1 KB each; making another one takes microseconds

_ESCAPES = str.maketrans({":": "%3A", "%": "%25", "{": "%7B", "}": "%7D"})
_ESCAPES_IN_PREFIX = str.maketrans({"%": "%25", "{": "%7B", "}": "%7D"})


class Partition:
    """One partition of a version of a queue, with the names of its keys."""

    __slots__ = ("_heads", "channel", "number", "queue", "tag", "version")

    def __init__(self, queue: str, version: int, number: int, tag: bytes, channel: bytes = b"") -> None:
        self.queue = queue
        self.version = version
        self.number = number
        self.tag = tag  # prefix of its keys; decides the cluster slot
        self.channel = channel  # for the notifications of its queue
        self._heads: dict[Script, tuple[bytes, ...]] = {}

    def __repr__(self) -> str:
        return f"<Partition {self.queue!r} v{self.version} p{self.number}>"

    def key(self, name: str) -> bytes:
        """Return the key that scripts call *name*."""
        return self.tag + b":" + _ENDS[name]

    def has_ready(self) -> tuple[bytes, ...]:
        """Return a command that counts the ready lists that are not empty."""
        return (b"EXISTS", *map(self.key, READY))

    def head(self, script: Script) -> tuple[bytes, ...]:
        """Return the number of keys of *script*, and the keys."""
        head = self._heads.get(script)
        if head is None:
            head = (b"%d" % len(script.keys), *map(self.key, script.keys))
            self._heads[script] = head
        return head


class Keys:
    """
    Factory of the key names of one prefix, with a cache of partitions.

    Queue names are escaped, so that no two queues share a key and none breaks a hash tag.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix.translate(_ESCAPES_IN_PREFIX)
        self._partitions: dict[tuple[str, int, int], Partition] = {}
        self.shared = Partition("", 0, 0, f"{{{self._prefix}}}".encode())
        """Pseudo-partition for calls on the keys that all queues share."""

    @property
    def queues(self) -> bytes:
        """Key of the set of queues."""
        return f"{{{self._prefix}}}:queues".encode()

    def topology(self, queue: str) -> bytes:
        """Return the key of the topology hash of *queue*."""
        return f"{{{self._queue(queue)}}}:topo".encode()

    def channel(self, queue: str) -> bytes:
        """Return the channel for the notifications of *queue*."""
        return f"{self._queue(queue)}:wake".encode()

    def partition(self, queue: str, version: int, number: int) -> Partition:
        """Return a partition, from the cache or new."""
        name = (queue, version, number)
        partition = self._partitions.get(name)
        if partition is None:
            partition = self._partitions.setdefault(name, self.new_partition(queue, version, number))
            while len(self._partitions) > CACHED:
                with suppress(RuntimeError, StopIteration):  # another thread has changed the dictionary meanwhile
                    self._partitions.pop(next(iter(self._partitions)), None)
        return partition

    def new_partition(self, queue: str, version: int, number: int) -> Partition:
        """Return a partition without caching it."""
        tag = f"{{{self._queue(queue)}:v{version}:p{number}}}".encode()
        return Partition(queue, version, number, tag, self.channel(queue))

    def _queue(self, queue: str) -> str:
        return f"{self._prefix}:{queue.translate(_ESCAPES)}"
