"""Leases over many partitions: an empty answer is true, whatever hints say; no partition's trouble is another's."""

from __future__ import annotations

import pytest

from scheduler.abilities import WakeReason
from scheduler.errors import BackendError
from scheduler.identity import new_token
from scheduler.jobs import NewJob
from scheduler.leases import Completion, Lease
from scheduler.topology import partition_of
from scheduler_backends.redis import RedisBackend


def lease(
    backend: RedisBackend, limit: int = 10, token: str = "", queues: tuple[str, ...] = ("default",)
) -> list[Lease]:
    return list(backend.lease(list(queues), token=token or new_token(), worker_id="w", duration=60.0, limit=limit))


def add(backend: RedisBackend, count: int = 1, **fields: object) -> list[str]:
    return [one.job.id for one in backend.enqueue([NewJob(type="t", **fields) for _ in range(count)])]


def add_to(backend: RedisBackend, partition: int, of: int, count: int) -> None:
    ids = (f"job {number}" for number in range(100_000))
    chosen = [one for one in ids if partition_of(one, of) == partition][:count]
    backend.enqueue([NewJob(type="t", id=one) for one in chosen])


@pytest.mark.parametrize("partitions", [8, 16, 64])
def test_hints_of_empty_partitions_hide_no_job(new_backend, redis_url, partitions):
    """A resume rings for every partition, also for those that are empty."""
    backend = new_backend(redis_url, partitions=partitions)
    waiter = backend.waiter(["default"])
    for _ in range(5):
        backend.pause("default")
        add(backend)
        while waiter.wait(0.05):
            pass
        backend.resume("default")
        assert waiter.wait(10.0)
        while waiter.wait(0.05):
            pass
        assert len(lease(backend, limit=1)) == 1
    waiter.close()


def test_partitions_that_others_have_emptied_hide_no_job(new_backend, redis_url):
    backend, other = new_backend(redis_url, partitions=16), new_backend(redis_url, partitions=16)
    add(backend, 200)
    assert len(lease(backend, limit=1)) == 1
    while lease(other, limit=100):
        pass
    add(other)
    assert len(lease(backend, limit=1)) == 1
    assert lease(backend, limit=1) == []


def test_a_paused_queue_costs_an_idle_worker_few_round_trips(new_backend, redis_url, trips):
    backend = new_backend(redis_url, partitions=8)
    add(backend, 100)
    lease(backend, limit=1)
    backend.pause("default")
    for limit in (1, 10, 64):
        lease(backend, limit=limit)
        trips.clear()
        assert lease(backend, limit=limit) == []
        assert len(trips) <= 2


def test_a_hint_makes_a_lease_one_short_round_trip(new_backend, redis_url, trips):
    backend = new_backend(redis_url, partitions=8)
    waiter = backend.waiter(["default"])
    assert waiter.wait(10.0)
    add(backend, 100)  # opens every gate, which the backend looks at once
    while lease(backend, limit=100):
        pass
    while waiter.wait(0.05):
        pass
    assert lease(backend) == []  # what the news have told is no news any more
    counts = []
    for _ in range(4):
        add(backend)
        assert waiter.wait(10.0)
        trips.clear()
        assert len(lease(backend)) == 1
        counts += trips
    waiter.close()
    assert len(counts) == 4
    assert sorted(counts)[:3] == [2, 2, 2], "the script, and whether the layout has changed; others in one of four"


def test_a_partition_that_is_damaged_keeps_no_other_from_its_work(new_backend, redis_url, raw):
    backend = new_backend(redis_url, partitions=8)
    add_to(backend, 2, 8, 1)
    raw.set(backend._store.keys.partition("default", 1, 2).key("leased"), "of a wrong type")
    assert lease(backend) == []
    for number in (0, 1, 5, 7):
        add_to(backend, number, 8, 10)
    assert [len(lease(backend, limit=1)) for _ in range(40)] == [1] * 40


def test_what_came_is_answered_though_another_partition_fails(new_backend, redis_url, raw):
    backend = new_backend(redis_url, partitions=8)
    add_to(backend, 0, 8, 3)
    add_to(backend, 2, 8, 1)
    raw.set(backend._store.keys.partition("default", 1, 2).key("leased"), "of a wrong type")
    token = new_token()
    assert len(lease(backend, token=token)) == 3
    assert len(lease(backend, token=token)) == 3


def test_an_error_is_raised_where_no_partition_answers(new_backend, redis_url, raw):
    backend = new_backend(redis_url, partitions=1)
    add(backend)
    raw.set(backend._store.keys.partition("default", 1, 0).key("leased"), "of a wrong type")
    with pytest.raises(BackendError):
        lease(backend)


def test_a_repeat_finds_what_is_held_however_many_calls_came_between(new_backend, redis_url):
    backend, other = new_backend(redis_url, partitions=8), new_backend(redis_url, partitions=8)
    ids = set(add(backend, 30))
    token = new_token()
    assert {one.job.id for one in lease(backend, limit=100, token=token)} == ids
    for number in range(20):
        lease(other, queues=(f"queue {number}",))
    for one in (backend, other):
        assert {held.job.id for held in lease(one, limit=100, token=token)} == ids


def test_a_token_from_elsewhere_may_have_been_used(new_backend, redis_url):
    backend = new_backend(redis_url, partitions=8)
    ids = set(add(backend, 30))
    token = "0123456789abcdef" * 2
    assert {one.job.id for one in lease(backend, limit=100, token=token)} == ids
    assert {one.job.id for one in lease(backend, limit=100, token=token)} == ids


def test_a_message_of_another_form_is_news_of_everything(new_backend, redis_url, raw):
    """Such as one from a process of another version."""
    backend = new_backend(redis_url, partitions=1)
    waiter = backend.waiter(["default"])
    assert waiter.wait(10.0)
    raw.publish(backend._store.keys.channel("default"), b"something else")
    assert waiter.wait(10.0) is WakeReason.ANY
    waiter.close()


def test_completing_a_whole_lease_call_costs_eight_commands_in_the_server(new_redis_server, new_backend):
    """Parts of a lease call are not asked for where no renewal has made any."""
    server = new_redis_server(persistence="none")
    backend = new_backend(server.url, partitions=1)
    for _ in range(2):  # the second with the script loaded
        add(backend, 100)
        held = lease(backend, limit=100)
        server.command("CONFIG", "RESETSTAT")
        assert backend.complete([Completion(lease=one) for one in held]) == []
    rows = server.info("commandstats").items()
    made = {name.partition("_")[2]: int(row.partition(",")[0].partition("=")[2]) for name, row in rows}
    del made["config|resetstat"]
    assert made == {"evalsha": 1, "exists": 1, "hmget": 1, "hdel": 3, "hincrby": 1, "zrem": 1}


def test_a_lease_call_that_fell_into_parts_leaves_nothing_behind(backend, raw):
    add(backend, 6)
    held = lease(backend)
    for some in (held[:4], held[:2], held[4:]):
        assert backend.renew(some, 60.0).refused == []
    (lease_members,) = raw.keys(f"*{backend.config.prefix}*:i")
    (expiry,) = raw.keys(f"*{backend.config.prefix}*:g")
    assert raw.zcard(expiry) > 1
    assert backend.complete([Completion(lease=one) for one in held[:3]]) == []
    assert raw.zcard(expiry)
    assert backend.complete([Completion(lease=one) for one in held[3:]]) == []
    assert not raw.exists(lease_members, expiry)
