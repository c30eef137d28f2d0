"""What the hash of a queue's topology says, checked: other programs may have written there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.errors import TopologyError
from scheduler.limits import MAX_COUNT
from scheduler.topology import MAX_PARTITIONS

MAX_VERSIONS = 100  # at a time; one or two is what a queue has
_NUMBER = re.compile(rb"\d{1,15}")
_PAUSE = re.compile(rb"\d{1,15}:[01]")


@dataclass(frozen=True, slots=True)
class Described:
    """The fields of a topology; without sizes the store knows no such queue."""

    active: int
    epoch: int
    pause: bytes
    sizes: Mapping[int, int]  # version -> partitions


def described(queue: str, fields: Mapping[bytes, bytes]) -> Described:
    """What *fields* say of *queue*. Raises `TopologyError` where that can be no topology of ours."""

    def refuse(field: bytes, why: str) -> TopologyError:
        return TopologyError(f"the topology of queue {queue!r} is damaged: its field {field!r} {why}")

    def number(field: bytes, text: bytes, at_most: int) -> int:
        if not _NUMBER.fullmatch(text) or int(text) > at_most:
            raise refuse(field, f"is no number of at most {at_most}")
        return int(text)

    sizes = {}
    for field, text in fields.items():
        if field.startswith(b"v:"):
            version, size = number(field, field[2:], MAX_COUNT), number(field, text, MAX_PARTITIONS)
            if not (version and size):
                raise refuse(field, "is 0")
            sizes[version] = size
    if len(sizes) > MAX_VERSIONS:
        raise TopologyError(f"the topology of queue {queue!r} is damaged: it has {len(sizes)} versions")
    active = number(b"active", fields.get(b"active", b"0"), MAX_COUNT)
    if (active or sizes) and active not in sizes:
        raise refuse(b"active", "names none of its versions")
    pause = fields.get(b"pause", b"0:0")
    if not _PAUSE.fullmatch(pause):
        raise refuse(b"pause", "is no number with 0 or 1")
    for field in (b"highest", b"pauses"):
        number(field, fields.get(field, b"0"), 10**15)
    return Described(active, number(b"epoch", fields.get(b"epoch", b"0"), 10**15), pause, sizes)
