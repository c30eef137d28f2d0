"""How records in Redis are spoilt behind the backend's back, for the conformance suite."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from struct import Struct

from scheduler.backend import Backend
from scheduler.states import JobState
from scheduler.testing.contract import Damage, QueueDamage
from scheduler.testing.contract.damage_cases import STATES
from scheduler.topology import partition_of
from scheduler_backends.redis import RedisBackend
from scheduler_backends.redis.client.node import Word
from scheduler_backends.redis.client.router import Command
from scheduler_backends.redis.keys import SUFFIXES, Keys, Partition

HEAD = Struct("<qqBBI8sdH")
CREATED, RUN_AT, FORMAT, LEVEL, RETRIES, _NONCE, TIMEOUT, OF_TYPE = range(8)
FLAG = 4  # in the byte of the level: options follow the head
KEY, POLICY_TAG, METADATA = 6, 7, 128
POLICY = {"curve": "exponential", "initial": 1.0, "factor": 2.0, "cap": 60.0, "jitter": 0.1, "max_retries": None}

States = tuple[JobState, ...]
SOME: States = (JobState.READY, JobState.LEASED)


def send(backend: Backend, name: bytes, key: bytes, *words: Word) -> list[object]:
    """The answers of a command, sent by the backend's own connections."""
    assert isinstance(backend, RedisBackend)
    return backend._store.calls.plain(Command(key, (name, key, *words)))


def partition(backend: Backend, queue: str, id: str) -> Partition:
    """Where a job of this id is."""
    assert isinstance(backend, RedisBackend)
    (version,) = backend.topology(queue).versions
    return Keys(backend.config.prefix).partition(queue, version.version, partition_of(id, version.partitions))


def _record(
    field: str | None, change: Callable[[bytes], bytes], *, waits: bool = False, states: States = SOME
) -> Damage:
    def write(backend: Backend, queue: str, id: str) -> None:
        place = partition(backend, queue, id).key("jobs")
        (record,) = send(backend, b"HGET", place, id.encode())
        assert isinstance(record, bytes)
        send(backend, b"HSET", place, id.encode(), change(record))

    return Damage(field=field, write=write, states=states, waits=waits)


def _head(field: str | None, place: int, value: float, *, waits: bool = False, states: States = SOME) -> Damage:
    def change(record: bytes) -> bytes:
        parts = list(HEAD.unpack_from(record))
        parts[place] = value
        return HEAD.pack(*parts) + record[HEAD.size :]

    return _record(field, change, waits=waits, states=states)


def _type(kind: bytes) -> Damage:
    def changed(record: bytes) -> bytes:
        head, options, rest = _split(record)
        size = head[OF_TYPE]
        head[OF_TYPE] = len(kind)
        return _joined(head, options, kind + rest[size:])

    return _record("type", changed)


def _options(
    field: str | None, options: bytes | None, *, size: int | None = None, waits: bool = False, states: States = SOME
) -> Damage:
    """Other options, None = the flag is wrong; *size*: in place of the true one."""

    def changed(record: bytes) -> bytes:
        head, before, rest = _split(record)
        if options is None:
            head[LEVEL] ^= FLAG
            return HEAD.pack(*head) + record[HEAD.size :]
        return _joined(head, before if size else options, rest, size)

    return _record(field, changed, waits=waits, states=states)


def _split(record: bytes) -> tuple[list[int], bytes, bytes]:
    """The head, the options and the rest of a record."""
    head = list(HEAD.unpack_from(record))
    if not head[LEVEL] & FLAG:
        return head, b"", record[HEAD.size :]
    size = int.from_bytes(record[HEAD.size : HEAD.size + 2], "little")
    end = HEAD.size + 2 + size
    return head, record[HEAD.size + 2 : end], record[end:]


def _joined(head: Sequence[int], options: bytes, rest: bytes, size: int | None = None) -> bytes:
    head = [*head[:LEVEL], head[LEVEL] | FLAG, *head[LEVEL + 1 :]]
    return HEAD.pack(*head) + Struct("<H").pack(len(options) if size is None else size) + options + rest


def option(tag: int, value: bytes, size: int | None = None) -> bytes:
    """An option as a record has it."""
    return Struct("<BH").pack(tag, len(value) if size is None else size) + value


def _policy(data: object, states: States = SOME) -> Damage:
    return _options("retry_policy", option(POLICY_TAG, json.dumps(data).encode()), states=states)


def _history(field: str, value: bytes, states: States = SOME) -> Damage:
    def write(backend: Backend, queue: str, id: str) -> None:
        send(backend, b"HSET", partition(backend, queue, id).key("history"), id.encode(), value)

    return Damage(field=field, write=write, states=states)


_ERRORS = Struct("<IIB").pack(1, 0, 1)
_TEXTS = _ERRORS + Struct("<IqI").pack(16, 0, 1)

OF_JOBS: Mapping[str, Damage] = {
    "no bytes": _record("type", lambda _: b"", states=STATES),
    "noise": _record("type", lambda _: bytes(range(255, -1, -1))),
    "a text": _record("payload", lambda _: b"garbage" * 30),
    "cut short": _record("payload", lambda record: record[:39]),
    "cut within its type": _record("type", lambda record: record[: len(record) - len(_split(record)[2]) + 3]),
    "format 0": _head("type", FORMAT, 0),
    "format 200": _head("type", FORMAT, 200),
    "format 1": _head("type", FORMAT, 1),
    "a later format": _head(None, FORMAT, 3, waits=True, states=STATES),
    "a later format, and short": _record(None, lambda record: record[:16] + b"\x03" + bytes(13), waits=True),
    "created too late": _head("created_at", CREATED, 2**63 - 1),
    "created too early": _head("created_at", CREATED, -(2**63)),
    "due too late": _head("run_at", RUN_AT, 2**62),
    "priority 4": _head("priority", LEVEL, FLAG + 8),
    "priority 255": _head("priority", LEVEL, 255),
    "too many retries": _head("max_retries", RETRIES, 2**32 - 1),
    "timeout 0": _head("timeout", TIMEOUT, 0.0),
    "timeout below 0": _head("timeout", TIMEOUT, -1.0),
    "timeout infinite": _head("timeout", TIMEOUT, float("inf")),
    "timeout no number": _head("timeout", TIMEOUT, float("nan")),
    "no type": _type(b""),
    "type no UTF-8": _type(b"\xff\xfe"),
    "type with a control": _type(b"a\nb"),
    "type too long": _head("type", OF_TYPE, 65_535),
    "options by a wrong flag": _options("type", None),
    "options too long": _options("metadata", b"", size=65_535),
    "options too short": _options("metadata", b"", size=2),
    "options cut short": _options("metadata", option(METADATA, b"a\0b", 4)),
    "options in no order": _options("idempotency_key", option(METADATA, b"a\0b") + option(KEY, b"key")),
    "an option twice": _options("idempotency_key", option(KEY, b"key") * 2),
    "an option without a tag": _options("metadata", option(0, b"")),
    "an option of a later release": _options("option_3", option(3, bytes(8)), waits=True, states=STATES),
    "two options of a later release": _options("option_5", option(1, b"a") + option(5, bytes(16)), waits=True),
    "policy no JSON": _options("retry_policy", option(POLICY_TAG, b"\xff\xfe")),
    "policy deeply nested": _options("retry_policy", option(POLICY_TAG, b"[" * 50_000)),
    "policy a list": _policy([1], STATES),
    "policy an empty list": _policy([]),
    "policy nothing": _policy(None),
    "policy a number": _policy(5),
    "policy a text": _policy("x"),
    "policy of an unknown curve": _policy({**POLICY, "curve": "fib"}),
    "policy without a bound": _policy({**POLICY, "cap": float("inf")}),
    "policy of texts": _policy({**POLICY, "initial": "1"}),
    "key no UTF-8": _options("idempotency_key", option(KEY, b"\xff")),
    "key empty": _options("idempotency_key", option(KEY, b"")),
    "key with a control": _options("idempotency_key", option(KEY, b"a\nb")),
    "key too long": _options("idempotency_key", option(KEY, b"k" * 201)),
    "metadata no UTF-8": _options("metadata", option(METADATA, b"a\0\xff")),
    "metadata of one text": _options("metadata", option(METADATA, b"a")),
    "metadata of three texts": _options("metadata", option(METADATA, b"a\0b\0c")),
    "metadata with a surrogate": _options("metadata", option(METADATA, b"a\0\xed\xa0\x80")),
    "metadata too large": _options("metadata", option(METADATA, b"a\0" + b"x" * 8_192)),
    "history of two bytes": _history("attempts", b"zz"),
    "history of noise": _history("attempts", b"\xff" * 20, STATES),
    "history with too long an error": _history("errors", _ERRORS + b"\xff\xff\xff\x7f" + bytes(20)),
    "history with too short an error": _history("errors", _ERRORS + bytes(16)),
    "history with an error too few": _history("errors", Struct("<IIB").pack(1, 0, 2) + bytes(2)),
    "history that goes on": _history("errors", Struct("<IIB").pack(1, 0, 0) + b"more"),
    "history no UTF-8": _history("errors", _TEXTS + b"\xff\xff\0\0"),
    "history of two texts": _history("errors", _TEXTS + b"abc\0"),
    "history of the year 300,000": _history("errors", _ERRORS + Struct("<IqI").pack(14, 2**63 - 1, 1) + b"\0\0"),
    "history with a run too few": _history("errors", Struct("<IIB").pack(1, 0, 16)),
    "history with too short a run": _history("errors", Struct("<IIB").pack(1, 0, 16) + Struct("<I").pack(7) + bytes(7)),
    "history with too long a run": _history("errors", Struct("<IIB").pack(1, 0, 16) + Struct("<I").pack(9) + bytes(8)),
    "history of too many attempts": _history("attempts", Struct("<IIB").pack(2**32 - 1, 0, 0)),
}
"""Each field of a record, and of a history."""

SOME_OF_JOBS = {name: OF_JOBS[name] for name in ("no bytes", "a later format", "policy a list", "history of noise")}
"""Enough where the way to the store is another, and not what is stored."""


def _keys(backend: Backend) -> Keys:
    assert isinstance(backend, RedisBackend)
    return Keys(backend.config.prefix)


def _in_topology(*fields: bytes) -> QueueDamage:
    return QueueDamage(write=lambda backend, queue: send(backend, b"HSET", _keys(backend).topology(queue), *fields))


def _in_partitions(name: bytes, key: str, *words: bytes) -> QueueDamage:
    def write(backend: Backend, queue: str) -> None:
        assert isinstance(backend, RedisBackend)
        for version in backend.topology(queue).versions:
            for number in range(version.partitions):
                send(backend, name, _keys(backend).partition(queue, version.version, number).key(key), *words)

    return QueueDamage(write=write)


def _shared(key: str, name: bytes, *words: bytes) -> QueueDamage:
    return QueueDamage(write=lambda backend, _: send(backend, name, _keys(backend).shared.key(key), *words))


def _also(damage: QueueDamage, *others: QueueDamage) -> QueueDamage:
    return QueueDamage(write=lambda backend, queue: [one.write(backend, queue) for one in (damage, *others)])


_GROUP = b"0123456789abcdef"

OF_QUEUES: Mapping[str, QueueDamage] = {
    "topology: no hash": QueueDamage(
        write=lambda backend, queue: send(backend, b"SET", _keys(backend).topology(queue), b"x")
    ),
    "topology: active a text": _in_topology(b"active", b"one", b"epoch", b"99"),
    "topology: active unknown": _in_topology(b"active", b"7", b"epoch", b"99"),
    "topology: epoch a text": _in_topology(b"epoch", b"soon"),
    "topology: a size a text": _in_topology(b"v:2", b"x", b"epoch", b"99"),
    "topology: a size of a million": _in_topology(b"v:1", b"1000000", b"epoch", b"99"),
    "topology: a size of none": _in_topology(b"v:1", b"0", b"epoch", b"99"),
    "topology: a size below none": _in_topology(b"v:1", b"-1", b"epoch", b"99"),
    "topology: a version a text": _in_topology(b"v:abc", b"8", b"epoch", b"99"),
    "topology: very many versions": _in_topology(
        *(b"v:%d" % k if k % 2 else b"256" for k in range(1_001, 3_001)), b"epoch", b"99"
    ),
    "topology: pause a text": _in_topology(b"pause", b"maybe", b"epoch", b"99"),
    "topology: no UTF-8": _in_topology(b"\xff", b"\xff", b"epoch", b"\xff"),
    "queues: no UTF-8": QueueDamage(
        write=lambda backend, _: send(backend, b"SADD", _keys(backend).queues, b"\xff\xfe")
    ),
    "queues: no name": QueueDamage(
        write=lambda backend, _: send(backend, b"SADD", _keys(backend).queues, b"a\nb", b"")
    ),
    **{
        f"{name}: {what}": _shared(name, *words)
        for name in ("changes", "leases")
        for what, words in {
            "of another type": (b"SET", b"x"),
            "infinite": (b"ZADD", b"inf", b"\xff", b"-inf", b"no queue", b"inf", b"\xfe"),
            "very large": (b"ZADD", b"1e300", b"x"),
        }.items()
    },
    "news: noise": QueueDamage(
        write=lambda backend, queue: [
            send(backend, b"PUBLISH", _keys(backend).channel(queue), text)
            for text in (b"", b" ", b"\xff", b"r", b"r nowhere", b"[" * 50_000, b"d \xff\xff")
        ]
    ),
    **{f"{key}: of another type": _in_partitions(b"SET", key, b"x") for key in SUFFIXES},
    "meta: texts for numbers": _in_partitions(
        b"HSET", "meta", b"due", b"x", b"tombstones", b"many", b"pause", b"", b"gate", b"ajar", b"closing", b"soon"
    ),
    "meta: numbers that are none": _in_partitions(
        b"HSET", "meta", b"due", b"nan", b"tombstones", b"-inf", b"pause", b"inf:1x", b"closing", b"inf"
    ),
    "tombstones: texts": _in_partitions(b"HSET", "tombstones", b"2:", b"many", b"x", b"", b"2:\xff", b"-1"),
    "scores: infinite": _also(
        *(
            _in_partitions(b"ZADD", key, score, b"no job")
            for key in ("scheduled", "waiting", "dead", "expiry")
            for score in (b"inf", b"-inf")
        )
    ),
    "leases: of nobody": _also(
        _in_partitions(b"ZADD", "expiry", b"1", _GROUP, b"1", b"x"),
        _in_partitions(b"HSET", "lease_members", _GROUP, b"\xff\0\0x", b"n" + _GROUP, b"many", b"w" + _GROUP, b"\xff"),
        _in_partitions(b"HSET", "leased", b"one", b"of no group", b"two", _GROUP),
    ),
}
"""What is kept of a queue: its topology, its place among the queues, and each key of a partition."""
