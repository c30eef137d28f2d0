"""Identities that nobody else makes: job ids, ids from idempotency keys, lease tokens, nonces."""

from __future__ import annotations

import itertools
import os
import threading
import time
import uuid
from typing import NamedTuple

from scheduler.processes import PerProcess

_KEY_NAMESPACE = uuid.UUID("9b4ce4f0-5f6d-5c0e-8a65-0d9a3d4a7c11")

_id_locks: PerProcess[threading.Lock] = PerProcess()  # guards _last_id
_last_id = 0


def new_id() -> str:
    """A UUIDv7 (RFC 9562, method 3 with sub-millisecond fraction): ascending within this process, unique in all."""
    global _last_id  # noqa: PLW0603 - one counter a process is the purpose
    nanoseconds = time.time_ns()
    milliseconds, rest = divmod(nanoseconds, 1_000_000)
    fraction = (rest << 12) // 1_000_000  # 12 bits: steps of 244 ns
    stamp = milliseconds << 12 | fraction
    with _id_locks.get(threading.Lock):
        # Two ids of one step, or a clock that went back, still ascend. No call is made here: at one a signal handler or
        # a finaliser could come in, make an id too, and wait for this lock for ever.
        if stamp <= _last_id:
            stamp = _last_id + 1
        _last_id = stamp
    value = (stamp >> 12) << 80 | 0x7 << 76 | (stamp & 0xFFF) << 64
    value |= 0b10 << 62 | int.from_bytes(os.urandom(8)) >> 2
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def id_for_key(queue: str, key: str) -> str:
    """The id of the job with this idempotency key: the same everywhere, so no store needs an index of keys."""
    return str(uuid.uuid5(_KEY_NAMESPACE, f"{queue}\0{key}"))


class _Origin(NamedTuple):
    prefix: str  # 72 random bits
    counter: itertools.count[int]


_origins: PerProcess[_Origin] = PerProcess()


def _new_origin() -> _Origin:
    return _Origin(os.urandom(9).hex(), itertools.count())


def new_token() -> str:
    """
    A lease token of 32 hexadecimal digits that never repeats: 72 random bits of this process, then a 56-bit counter.

    A forked child takes new random bits, so parent and child never make the same one. Safe in any thread.
    """
    origin = _origins.get(_new_origin)
    return f"{origin.prefix}{next(origin.counter):014x}"


def own_number(token: str) -> int | None:
    """Which of the tokens of this process *token* is, counted from 0; None = another process has made it."""
    origin = _origins.get(_new_origin)
    if not token.startswith(origin.prefix):
        return None
    return int(token[len(origin.prefix) :], 16)
