"""Records and index entries damaged by hand: set aside with a reason, once, and the queue goes on."""

from __future__ import annotations

import logging

import pytest

from scheduler.errors import BackendError
from scheduler.identity import new_token
from scheduler.jobs import NewJob
from scheduler.leases import Completion, Failure, Lease
from scheduler.states import JobState
from scheduler_backends.redis import RedisBackend
from scheduler_backends.redis.keys import Keys


@pytest.fixture
def key(backend):
    """How the keys of the one partition are called."""
    return Keys(backend.config.prefix).partition("default", 1, 0).key


def lease(backend: RedisBackend, limit: int = 10, duration: float = 60.0) -> list[Lease]:
    return list(backend.lease(["default"], token=new_token(), worker_id="w", duration=duration, limit=limit))


def add(backend: RedisBackend, *ids: str, **fields: object) -> None:
    backend.enqueue([NewJob(type="t", id=one, **fields) for one in ids])


def warnings(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def ids(leases) -> list[str]:
    return [one.job.id for one in leases]


@pytest.mark.parametrize("damage", [b"", b"\x00", b"garbage" * 30, b"\x01" * 17, bytes(16) + b"\x02" + bytes(80)])
def test_a_ready_record_that_cannot_be_read_is_set_aside_once(backend, raw, key, caplog, damage):
    add(backend, "before", "bad", "after")
    raw.hset(key("jobs"), "bad", damage)
    assert ids(lease(backend)) == ["before", "after"]
    assert lease(backend) == []
    reason, _, kept = raw.hget(key("aside"), "bad").partition(b"\0")
    assert b"record" in reason
    assert kept == damage
    assert not backend.get("default", ["bad"])
    (told,) = warnings(caplog)
    assert "bad" in told
    assert backend.stats(["default"])[0].counts[JobState.LEASED] == 2


def test_nothing_but_damaged_jobs_is_no_empty_queue(backend, raw, key):
    """An empty answer means that nothing was leasable: the good job behind the bad ones is found by the same call."""
    add(backend, *(f"bad{number}" for number in range(5)), "good")
    for number in range(5):
        raw.hset(key("jobs"), f"bad{number}", b"x")
    assert ids(lease(backend, limit=1)) == ["good"]
    assert raw.hlen(key("aside")) == 5


def test_a_ready_entry_without_a_record_is_set_aside(backend, raw, key, caplog):
    add(backend, "gone", "good")
    raw.hdel(key("jobs"), "gone")
    assert ids(lease(backend)) == ["good"]
    assert b"without a record" in raw.hget(key("aside"), "gone")
    assert len(warnings(caplog)) == 1


def test_an_entry_that_is_no_entry_is_set_aside(backend, raw, key):
    add(backend, "good")
    raw.lpush(key("ready2"), b"", b"short", b"\xff\xfe\xfd not text \x00")
    assert ids(lease(backend)) == ["good"]
    assert lease(backend) == []


def test_a_job_listed_twice_is_leased_once(backend, raw, key):
    add(backend, "one", "two")
    raw.rpush(key("ready2"), *raw.lrange(key("ready2"), 0, -1))
    leases = lease(backend)
    assert sorted(ids(leases)) == ["one", "two"]
    assert not backend.complete([Completion(lease=one) for one in leases])
    assert lease(backend) == []
    assert not backend.get("default", ["one", "two"])


def test_a_job_listed_as_ready_while_it_is_leased_keeps_its_holder(backend, raw, key):
    add(backend, "one")
    entry = raw.lindex(key("ready2"), 0)
    (held,) = lease(backend)
    raw.rpush(key("ready2"), entry)
    assert lease(backend) == []
    assert backend.complete([Completion(lease=held)]) == []


def test_a_scheduled_entry_without_a_record_holds_up_nobody(backend, raw, key):
    add(backend, "good", delay=0.001)
    raw.zadd(key("scheduled"), {"ghost": 0})
    raw.hset(key("meta"), "due", 0)
    while backend.promote_due(["default"], 100).next_due is not None:
        pass
    assert ids(lease(backend)) == ["good"]
    assert raw.hexists(key("aside"), "ghost")


def test_a_lost_bound_of_the_next_due_time_is_found_again(backend, raw, key):
    add(backend, "good", delay=0.001)
    raw.hdel(key("meta"), "due")
    while backend.promote_due(["default"], 100).next_due is not None:
        pass
    assert ids(lease(backend)) == ["good"]


@pytest.mark.parametrize("settle", ["complete", "retry", "bury", "release"])
def test_a_leased_job_whose_record_is_gone_is_settled_and_set_aside(backend, raw, key, settle):
    add(backend, "bad", "good")
    held = lease(backend)
    raw.hdel(key("jobs"), "bad")
    if settle == "complete":
        assert backend.complete([Completion(lease=one) for one in held]) == []
    elif settle == "release":
        assert backend.release(held) == []
    else:
        assert getattr(backend, settle)([Failure(lease=one) for one in held]) == []
    assert raw.hexists(key("aside"), "bad") == (settle != "complete")  # a finished job needs no record any more
    assert backend.stats(["default"])[0].counts[JobState.LEASED] == 0


def test_recovery_sets_aside_what_has_no_record_and_recovers_the_rest(backend, raw, key):
    add(backend, "bad", "good")
    lease(backend, duration=0.001)
    raw.hdel(key("jobs"), "bad")
    recovered = 0
    while not recovered:
        recovered = backend.recover_expired(["default"], 100).ready
    assert raw.hexists(key("aside"), "bad")
    assert ids(lease(backend)) == ["good"]


def test_recovery_finds_the_jobs_of_a_group_whose_list_is_gone(backend, raw, key):
    add(backend, "one", "two")
    lease(backend, duration=0.001)
    raw.delete(key("holding"))
    recovered = 0
    while not recovered:
        recovered = backend.recover_expired(["default"], 100).ready
    assert recovered == 2
    assert sorted(ids(lease(backend))) == ["one", "two"]


def test_a_lease_without_an_expiry_is_found_when_the_queue_is_trimmed(backend, raw, key):
    """Nothing but damage makes one; `trim`, which a worker calls now and then, mends it."""
    add(backend, "one", "two")
    lease(backend)
    raw.delete(key("expiry"))
    assert backend.recover_expired(["default"], 100).next_expiry is None
    backend.trim(["default"], 100)
    recovered = 0
    while not recovered:
        recovered = backend.recover_expired(["default"], 100).ready
    assert recovered == 2


def test_a_job_in_no_index_is_found_when_the_queue_is_trimmed(backend, raw, key):
    add(backend, "lost", "good")
    add(backend, "later", "lost later", delay=60.0)
    raw.lpop(key("ready2"))
    raw.zrem(key("scheduled"), "lost later")
    assert ids(lease(backend)) == ["good"]
    backend.trim(["default"], 100)
    assert sorted(ids(lease(backend))) == ["lost", "lost later"]


def test_an_undamaged_queue_is_left_as_it_is_when_trimmed(backend, caplog):
    add(backend, *"abcdef")
    add(backend, "later", delay=60.0)
    held = lease(backend, limit=4)
    backend.cancel("default", ["e"])
    backend.complete([Completion(lease=held[0])])
    backend.bury([Failure(lease=held[1])])
    backend.retry([Failure(lease=held[2], delay=60.0)])
    before = backend.stats(["default"])[0].counts
    backend.trim(["default"], 100)
    assert backend.stats(["default"])[0].counts == before
    assert not warnings(caplog)


def test_a_history_that_cannot_be_read_sets_its_job_aside(backend, raw, key):
    add(backend, "bad", "good")
    raw.hset(key("history"), "bad", b"\xff" * 20)
    assert ids(lease(backend)) == ["good"]
    assert raw.hexists(key("aside"), "bad")


def test_reads_pass_over_what_they_cannot_read(backend, raw, key):
    add(backend, "bad", "good", delay=60.0)
    raw.hset(key("jobs"), "bad", b"?")
    assert list(backend.get("default", ["bad", "good"])) == ["good"]
    assert [job.id for job in backend.list("default", JobState.SCHEDULED).jobs] == ["good"]


WRITTEN = {
    "enqueue": ("ready2", "scheduled", "jobs"),
    "promote_due": ("ready2",),
    "lease": ("leased", "expiry", "holding"),
    "retry": ("waiting", "history"),
    "bury": ("dead", "history"),
    "release": ("ready2",),
    "recover_expired": ("ready2", "history"),
}


@pytest.mark.parametrize(("move", "target"), [(move, target) for move, keys in WRITTEN.items() for target in keys])
def test_a_destination_of_the_wrong_type_leaves_the_jobs_where_they_are(backend, raw, key, move, target):
    """Guarantee 8: a script that fails keeps its earlier writes, so ours write when they know that all will pass."""
    jobs = [f"job{number}" for number in range(50)]
    held: list[Lease] = []
    if move == "promote_due":
        add(backend, *jobs, delay=0.001)
        raw.hset(key("meta"), "due", 0)
    elif move != "enqueue":
        add(backend, *jobs)
        if move != "lease":
            held = lease(backend, limit=50, duration=0.001 if move == "recover_expired" else 60.0)
    else:
        add(backend, "other", delay=60.0)
        add(backend, "another")
    saved = raw.dump(key(target))
    before = {
        name: raw.dump(key(name)) for name in ("jobs", "leased", "ready2", "scheduled", "waiting") if name != target
    }
    raw.set(key(target), "of the wrong type") if not saved else raw.execute_command("SET", key(target), "wrong")
    calls = {
        "enqueue": lambda: add(backend, *jobs, **({"delay": 60.0} if target == "scheduled" else {})),
        "promote_due": lambda: backend.promote_due(["default"], 100),
        "lease": lambda: lease(backend, limit=50),
        "retry": lambda: backend.retry([Failure(lease=one, delay=60.0) for one in held]),
        "bury": lambda: backend.bury([Failure(lease=one) for one in held]),
        "release": lambda: backend.release(held),
        "recover_expired": lambda: backend.recover_expired(["default"], 100),
    }
    with pytest.raises(BackendError):
        calls[move]()
    after = {name: raw.dump(key(name)) for name in before}
    assert after == before
    raw.delete(key(target))
    if saved:
        raw.restore(key(target), 0, saved)
    calls[move]()
    counts = backend.stats(["default"])[0].counts
    assert sum(counts.values()) == 50 + (2 if move == "enqueue" else 0)
