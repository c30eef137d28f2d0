"""Identities that nobody else makes: job ids, ids from idempotency keys, lease tokens, nonces."""

from __future__ import annotations

import itertools
import os
import threading
import time
import uuid
from typing import NamedTuple

_KEY_NAMESPACE = uuid.UUID("9b4ce4f0-5f6d-5c0e-8a65-0d9a3d4a7c11")

_id_lock = threading.Lock()  # guards _last_id
_last_id = 0


def new_id() -> str:
    """A UUIDv7 (RFC 9562, method 3 with sub-millisecond fraction): ascending within this process, unique in all."""
    global _last_id  # noqa: PLW0603 - one counter a process is the purpose
    nanoseconds = time.time_ns()
    milliseconds, rest = divmod(nanoseconds, 1_000_000)
    fraction = (rest << 12) // 1_000_000  # 12 bits: steps of 244 ns
    stamp = milliseconds << 12 | fraction
    with _id_lock:
        # Two ids of one step, or a clock that went back, still ascend.
        stamp = _last_id = max(stamp, _last_id + 1)
    value = (stamp >> 12) << 80 | 0x7 << 76 | (stamp & 0xFFF) << 64
    value |= 0b10 << 62 | int.from_bytes(os.urandom(8)) >> 2
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def id_for_key(queue: str, key: str) -> str:
    """The id of the job with this idempotency key: the same everywhere, so no store needs an index of keys."""
    return str(uuid.uuid5(_KEY_NAMESPACE, f"{queue}\0{key}"))


class _Origin(NamedTuple):
    pid: int
    prefix: str  # 72 random bits
    counter: itertools.count[int]


_origin = _Origin(0, "", itertools.count())


def new_token() -> str:
    """
    A lease token of 32 hexadecimal digits that never repeats: 72 random bits of this process, then a 56-bit counter.

    A forked child takes new random bits, so parent and child never make the same one. Safe in any thread.
    """
    global _origin  # noqa: PLW0603 - one origin a process is the purpose
    origin = _origin
    if origin.pid != os.getpid():
        # Two threads may both come here first; each uses what it made, and both are unique.
        origin = _origin = _Origin(os.getpid(), os.urandom(9).hex(), itertools.count())
    return f"{origin.prefix}{next(origin.counter):014x}"


def own_number(token: str) -> int | None:
    """Which of the tokens of this process *token* is, counted from 0; None = another process has made it."""
    origin = _origin
    if origin.pid != os.getpid() or not token.startswith(origin.prefix):
        return None
    return int(token[len(origin.prefix) :], 16)


def _after_fork_in_child() -> None:
    global _id_lock, _origin  # noqa: PLW0603 - one of each a process
    _id_lock = threading.Lock()  # the parent's may be held by a thread that does not exist here
    _origin = _Origin(0, "", itertools.count())  # process ids come back: a grandchild may bear its grandparent's


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
