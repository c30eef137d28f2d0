"""Unique identifiers: job ids, ids from idempotency keys, and lease tokens."""

from __future__ import annotations

import itertools
import os
import time
import uuid
from typing import NamedTuple

from scheduler.processes import PerProcess

_KEY_NAMESPACE = uuid.UUID("9b4ce4f0-5f6d-5c0e-8a65-0d9a3d4a7c11")

_last_id = 0


def new_id() -> str:
    """Return a UUIDv7 (RFC 9562, method 3, with a sub-millisecond fraction). Ids of one process ascend."""
    global _last_id  # noqa: PLW0603 - one counter per process is intended
    nanoseconds = time.time_ns()
    milliseconds, rest = divmod(nanoseconds, 1_000_000)
    fraction = (rest << 12) // 1_000_000  # 12 bits: steps of 244 ns
    stamp = milliseconds << 12 | fraction
    # Ids ascend even within one step, or when the clock goes back. There is no lock, since a signal handler that makes
    # an id would wait for it for ever. None is needed: the interpreter switches threads only at calls and loops, and
    # the next lines have none.
    if stamp <= _last_id:
        stamp = _last_id + 1
    _last_id = stamp
    value = (stamp >> 12) << 80 | 0x7 << 76 | (stamp & 0xFFF) << 64
    value |= 0b10 << 62 | int.from_bytes(os.urandom(8)) >> 2
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def id_for_key(queue: str, key: str) -> str:
    """Return the id of the job with this idempotency key. All processes derive the same, so stores need no index."""
    return str(uuid.uuid5(_KEY_NAMESPACE, f"{queue}\0{key}"))


class _Origin(NamedTuple):
    prefix: str  # 72 random bits
    counter: itertools.count[int]


_origins: PerProcess[_Origin] = PerProcess()


def _new_origin() -> _Origin:
    return _Origin(os.urandom(9).hex(), itertools.count())


def new_token() -> str:
    """
    Return a lease token of 32 hexadecimal digits that never repeats: 72 random bits of the process and a counter.

    A forked child draws new random bits, so its tokens differ from its parent's. Safe in any thread.
    """
    origin = _origins.get(_new_origin)
    return f"{origin.prefix}{next(origin.counter):014x}"


def own_number(token: str) -> int | None:
    """Return the position of *token* among the tokens of this process, from 0; None = another process made it."""
    origin = _origins.get(_new_origin)
    if not token.startswith(origin.prefix):
        return None
    return int(token[len(origin.prefix) :], 16)
