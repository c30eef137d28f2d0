"""Records of format 2, byte for byte: a plain job pays for no option, and what a later release wrote is kept."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from struct import Struct

import pytest

from redis_damages import HEAD, LEVEL, METADATA, option
from scheduler.identity import new_token
from scheduler.jobs import ErrorDetail, Job, NewJob, Priority
from scheduler.leases import Completion, Failure, Lease
from scheduler.retry import RetryPolicy
from scheduler.states import JobState
from scheduler.testing import ManualClock
from scheduler_backends.redis import RedisBackend
from scheduler_backends.redis.keys import Keys
from scheduler_backends.redis.records import TAGS, micros

NOW = datetime(2026, 12, 1, tzinfo=UTC)
BASE = 40  # bytes of the fixed head


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def backend(new_backend, redis_url, clock) -> RedisBackend:
    return new_backend(redis_url, partitions=1, clock=clock)


@pytest.fixture
def key(backend) -> Callable[[str], bytes]:
    return Keys(backend.config.prefix).partition("default", 1, 0).key


def lease(backend: RedisBackend) -> list[Lease]:
    return list(backend.lease(["default"], token=new_token(), worker_id="w", duration=60.0, limit=10))


def failure(lease: Lease, delay: float = 0.0) -> Failure:
    return Failure(lease=lease, delay=delay, error=ErrorDetail(kind="E"))


def head_of(job: NewJob, level: int) -> bytes:
    us = micros(NOW)
    nonce = bytes.fromhex(job.nonce)
    return HEAD.pack(us, us, 2, level, job.max_retries, nonce, job.timeout, len(job.type))


def test_a_plain_record_is_its_head_its_type_and_its_payload(backend, raw, key):
    job = NewJob(type="kind", payload=b"payload", priority=Priority.HIGH, max_retries=7, timeout=1.5)
    backend.enqueue([job])
    record = raw.hget(key("jobs"), job.id)
    assert record == head_of(job, 1) + b"kind" + b"payload"
    assert len(record) == BASE + 4 + 7


def test_options_stand_behind_the_head_in_the_order_of_their_tags(backend, raw, key):
    job = NewJob(
        type="kind", payload=b"payload", metadata={"a": "b", "c": ""}, retry_policy=RetryPolicy(), idempotency_key="k"
    )
    backend.enqueue([job])
    policy = b'{"curve":"exponential","initial":1.0,"factor":2.0,"cap":60.0,"jitter":0.1,"max_retries":null}'
    options = option(6, b"k") + option(7, policy) + option(128, b"a\0b\0c\0")
    record = raw.hget(key("jobs"), job.id)
    assert record == head_of(job, 2 + 4) + Struct("<H").pack(len(options)) + options + b"kindpayload"
    assert list(TAGS) == sorted(TAGS)


# With a clock of the test's own, each lease call marks its partition (one script more, zadd and zscore).
LEASE = "evalsha*2 exists hmget*4 hset*2 lrange*4 ltrim zadd*2 zrangebyscore zscore"
LIFE = (
    ("enqueue", "evalsha exists hget hmget*2 hset llen publish rpush"),
    ("lease", LEASE),
    ("renew", "evalsha hmget*2 zadd"),
    ("complete", "evalsha exists hdel*3 hincrby hmget zrem"),
    ("enqueue later", "evalsha exists hget*2 hmget*2 hset*2 publish zadd"),
    ("promote", "evalsha exists*2 hget hset publish rpush zrangebyscore*9 zrem"),
    ("lease", LEASE),
    ("release", "evalsha hdel*2 hincrby hmget*2 lindex lpush publish zrem"),
    ("lease", LEASE),
    ("retry", "evalsha hdel*2 hincrby hmget*3 hset llen*4 publish rpush zrem"),
    ("lease", LEASE.replace("hmget*4", "hmget*5")),  # histories are read where there are any
    ("bury", "evalsha hdel*2 hincrby hmget*3 hset zadd zrem"),
)


def test_the_commands_of_a_plain_jobs_life(backend, raw, clock):
    """Counted by the server, those of scripts included: what a plain job does not use costs it none."""
    held: list[Lease] = []
    moves: dict[str, Callable[[], object]] = {
        "enqueue": lambda: backend.enqueue([NewJob(type="t")]),
        "enqueue later": lambda: backend.enqueue([NewJob(type="t", delay=1.0)]),
        "promote": lambda: backend.promote_due(["default"], 10),
        "lease": lambda: held.__setitem__(slice(None), lease(backend)),
        "renew": lambda: backend.renew(held, 60.0),
        "complete": lambda: backend.complete([Completion(lease=one) for one in held]),
        "release": lambda: backend.release(held),
        "retry": lambda: backend.retry([failure(one) for one in held]),
        "bury": lambda: backend.bury([failure(one) for one in held]),
    }

    def calls() -> dict[str, int]:
        info = raw.info("commandstats")
        return {name.removeprefix("cmdstat_"): row["calls"] for name, row in info.items() if name != "cmdstat_info"}

    def cost(move: str) -> str:
        before = calls()
        moves[move]()
        clock.advance(1.0)
        made = {name: count - before.get(name, 0) for name, count in calls().items()}
        return " ".join(f"{name}*{count}" if count > 1 else name for name, count in sorted(made.items()) if count)

    for move, _ in LIFE:  # opens the connection and the partition, and loads the scripts
        cost(move)
    backend.purge("default", JobState.DEAD, 10)
    assert [(move, cost(move)) for move, _ in LIFE] == list(LIFE)


def add_options(raw, place: bytes, id: str, options: bytes) -> bytes:
    """Write *options* into the record of a plain job, and return it."""
    record = raw.hget(place, id)
    head = list(HEAD.unpack_from(record))
    head[LEVEL] |= 4
    changed = HEAD.pack(*head) + Struct("<H").pack(len(options)) + options + record[BASE:]
    raw.hset(place, id, changed)
    return changed


def put_through_every_move(backend: RedisBackend, clock: ManualClock) -> Job:
    """The job "one", dead in another version after it was retried, released, recovered, buried and requeued."""
    backend.retry([failure(one, 1.0) for one in lease(backend)])
    clock.advance(1.0)
    backend.promote_due(["default"], 10)
    backend.release(lease(backend))
    assert lease(backend)
    clock.advance(120.0)
    assert backend.recover_expired(["default"], 10).ready == 1
    backend.bury([failure(one) for one in lease(backend)])
    assert backend.requeue("default", ["one"])[0].moved
    backend.bury([failure(one) for one in lease(backend)])
    backend.promote_queue_version("default", 2, 1)
    backend.complete_draining_version("default", 1, finished="move")
    return backend.get("default", ["one"])["one"]


def test_an_option_that_may_be_ignored_is_kept_through_every_move(backend, raw, key, clock):
    backend.enqueue([NewJob(type="t", id="one", payload=b"p")])
    record = add_options(
        raw, key("jobs"), "one", option(METADATA, b"a\0b") + option(129, bytes(24)) + option(255, b"x")
    )
    job = put_through_every_move(backend, clock)
    assert (job.state, job.unreadable, job.metadata, job.payload) == (JobState.DEAD, (), {"a": "b"}, b"p")
    moved = Keys(backend.config.prefix).partition("default", 2, 0).key("jobs")
    assert raw.hget(moved, "one") == record


def test_a_crash_of_a_job_with_an_option_of_a_later_release_is_left_to_that_release(backend, raw, key, clock):
    backend.enqueue([NewJob(type="t", id="one", max_retries=0), NewJob(type="t", id="known", max_retries=0)])
    assert len(lease(backend)) == 2
    add_options(raw, key("jobs"), "known", option(METADATA, b"a\0b") + option(129, b"x"))
    add_options(raw, key("jobs"), "one", option(6, b"key") + option(9, b"x") + option(METADATA, b"a\0b"))
    clock.advance(120.0)
    recovery = backend.recover_expired(["default"], 10)
    assert (recovery.ready, recovery.dead) == (1, 1)
    assert not raw.hexists(key("history"), "one")
    assert not lease(backend)
    job = backend.get("default", ["one"])["one"]
    assert (job.state, job.unreadable, job.idempotency_key) == (JobState.RETRY_WAIT, ("option_9",), "key")


def test_the_runs_in_a_history_are_kept_through_every_move(backend, raw, key, clock):
    """A later release writes them; this one reads past them."""
    runs = b"".join(Struct("<Iq").pack(14, number) + b"worker" for number in range(10))
    backend.enqueue([NewJob(type="t", id="one", max_retries=100)])
    raw.hset(key("history"), "one", Struct("<IIB").pack(0, 0, 10 * 16) + runs)
    for _ in range(11):
        backend.retry([failure(one) for one in lease(backend)])
    job = put_through_every_move(backend, clock)
    assert (job.state, job.attempts, len(job.errors), job.unreadable) == (JobState.DEAD, 1, 10, ())
    history = raw.hget(Keys(backend.config.prefix).partition("default", 2, 0).key("history"), "one")
    assert history[8] == 10 * 16 + 10
    assert history.endswith(runs)
