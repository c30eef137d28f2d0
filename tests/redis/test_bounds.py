"""No script works off a whole backlog: what one call leaves, later ones do, and no answer is wrong in between."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scheduler.identity import new_token
from scheduler.jobs import NewJob
from scheduler.leases import Completion, Lease
from scheduler.states import JobState
from scheduler_backends.redis import RedisBackend, repair, scripts
from scheduler_backends.redis.client.node import Node
from scheduler_backends.redis.keys import Keys, Partition
from scheduler_backends.redis.served import Served

MANY = 5_000
BOUND = 1_000  # jobs in one call of a script
SWEPT = 2_000  # dead entries that one call removes


@pytest.fixture
def partition(backend: RedisBackend) -> Partition:
    return Keys(backend.config.prefix).partition("default", 1, 0)


def lease(backend: RedisBackend, limit: int = 10, token: str = "") -> list[Lease]:
    return list(backend.lease(["default"], token=token or new_token(), worker_id="w", duration=600.0, limit=limit))


def add(backend: RedisBackend, *ids: str) -> list[str]:
    backend.enqueue([NewJob(type="t", id=one) for one in ids])
    return list(ids)


def cancel_all_but_the_first(backend: RedisBackend) -> None:
    add(backend, "first")
    ids = add(backend, *(f"job {number}" for number in range(MANY)))
    assert all(answer.moved for answer in backend.cancel("default", ids))


def stats(backend: RedisBackend) -> tuple[int, bool]:
    (row,) = backend.stats(["default"])
    return row.counts[JobState.READY], row.oldest_ready_age is not None


def test_a_lease_before_a_cancelled_backlog_removes_some_of_it(backend, raw, partition):
    cancel_all_but_the_first(backend)
    add(backend, "last")
    assert raw.llen(partition.key("ready2")) > MANY
    assert [one.job.id for one in lease(backend, limit=1)] == ["first"]
    left = raw.llen(partition.key("ready2"))
    assert MANY - 2 * SWEPT <= left < MANY
    assert stats(backend) == (1, True)
    assert [one.job.id for one in lease(backend)] == ["last"]
    assert lease(backend) == []
    assert raw.llen(partition.key("ready2")) == 0
    assert not raw.exists(partition.key("tombstones"))
    assert raw.hget(partition.key("meta"), "tombstones") == b"0"


def test_a_backlog_of_cancelled_jobs_alone_is_removed_at_once(backend, raw, partition):
    cancel_all_but_the_first(backend)
    assert [one.job.id for one in lease(backend, limit=1)] == ["first"]
    assert not raw.exists(*(partition.key(name) for name in ("ready2", "tombstones")))
    assert raw.hget(partition.key("meta"), "tombstones") == b"0"
    add(backend, "job 1")  # an id that was cancelled before
    assert [one.job.id for one in lease(backend)] == ["job 1"]


def test_live_jobs_survive_wrong_counts_of_dead_ones(backend, raw, partition):
    add(backend, "first", "off", "on")
    backend.cancel("default", ["off"])
    raw.hset(partition.key("meta"), "tombstones", 2)
    assert [one.job.id for one in lease(backend, limit=1)] == ["first"]
    assert [one.job.id for one in lease(backend)] == ["on"]


def test_an_id_cancelled_twice_hides_two_entries_and_no_third(backend, raw, partition):
    add(backend, "first")
    for _ in range(2):
        add(backend, "again")
        backend.cancel("default", ["again"])
    add(backend, "again", "other")
    assert raw.hvals(partition.key("tombstones")) == [b"2"]
    assert [one.job.id for one in lease(backend, limit=1)] == ["first"]
    assert [one.job.id for one in lease(backend)] == ["again", "other"]
    assert not raw.exists(partition.key("tombstones"))
    assert raw.hget(partition.key("meta"), "tombstones") == b"0"


@pytest.mark.parametrize("limit_and_wrong_by", [(1, 0), (10, 0), (1, 1), (10, 1)])
@pytest.mark.parametrize("partitions", [1, 8])
def test_the_first_lease_finds_the_job_behind_a_cancelled_backlog(
    new_backend, redis_url, raw, partitions, limit_and_wrong_by
):
    """
    More dead entries in each partition than one call of a script removes.

    Where the counts of dead entries are wrong, they are not removed at once either.
    """
    limit, wrong_by = limit_and_wrong_by
    backend = new_backend(redis_url, partitions=partitions)
    heads = add(backend, *(f"head {number}" for number in range(32 * partitions)))
    for start in range(0, MANY // 2 * partitions, MANY // 2):
        dead = add(backend, *(f"job {number}" for number in range(start, start + MANY // 2)))
        assert all(one.moved for one in backend.cancel("default", dead))
    add(backend, "last")
    for number in range(partitions):
        raw.hincrby(Keys(backend.config.prefix).partition("default", 1, number).key("meta"), "tombstones", wrong_by)
    backend.cancel("default", heads)
    assert [one.job.id for one in lease(backend, limit=limit)] == ["last"]
    assert lease(backend) == []


def test_a_partition_that_has_told_of_more_is_asked_although_its_hint_is_gone(new_backend, redis_url, monkeypatch):
    """Other calls of the same backend take hints too, in other threads."""
    backend = new_backend(redis_url, partitions=8)
    monkeypatch.setattr(Served, "note_ready", lambda served, partition: None)
    add(backend, "one")
    assert [one.job.id for one in lease(backend)] == ["one"]


def test_an_empty_answer_is_true_although_only_cancelled_entries_are_left(new_backend, redis_url, raw):
    backend = new_backend(redis_url, partitions=2)
    cancel_all_but_the_first(backend)
    assert [one.job.id for one in lease(backend)] == ["first"]
    assert lease(backend) == []
    assert stats(backend) == (0, False)
    keys = Keys(backend.config.prefix)
    assert not any(raw.llen(keys.partition("default", 1, number).key("ready2")) for number in range(2))


def test_a_list_finds_the_ready_job_behind_a_cancelled_backlog(backend):
    cancel_all_but_the_first(backend)
    add(backend, "last")
    assert [job.id for job in walk(backend, limit=1)] == ["first", "last"]
    assert [one.job.id for one in lease(backend, limit=1)] == ["first"]
    assert [job.id for job in walk(backend, limit=1)] == ["last"]


def walk(backend: RedisBackend, limit: int) -> Iterator[object]:
    page = backend.list("default", JobState.READY, limit=limit)
    yield from page.jobs
    while page.cursor is not None:
        page = backend.list("default", JobState.READY, limit=limit, cursor=page.cursor)
        yield from page.jobs


def test_purging_ready_jobs_goes_on_behind_a_cancelled_backlog(backend, raw, partition):
    cancel_all_but_the_first(backend)
    add(backend, "last")
    assert backend.purge("default", JobState.READY, 10) == 2
    assert stats(backend) == (0, False)
    assert raw.hlen(partition.key("jobs")) == 1  # what keeps the hash from being a list


def test_a_version_of_which_only_cancelled_entries_are_left_is_completed(backend):
    cancel_all_but_the_first(backend)
    backend.promote_queue_version("default", 2, 1)
    (first,) = lease(backend)
    assert backend.complete([Completion(lease=first)]) == []
    assert backend.complete_draining_version("default", 1).draining == ()


def test_the_jobs_of_a_lease_group_that_grew_are_recovered_a_thousand_at_a_time(backend, raw, partition):
    """By requests that were served late, each of which adds to what its repeat has been given."""
    token = new_token()
    add(backend, *(f"job {number}" for number in range(2_500)))
    for _ in range(3):
        backend._store.calls.one(scripts.LEASE, partition, b"", 1_000, 1, bytes.fromhex(token), b"w", 1)
    assert raw.hlen(partition.key("leased")) == 2_501
    found = [0]
    while found[-1] < 2_500:
        recovery = backend.recover_expired(["default"], 1)
        found.append(found[-1] + recovery.ready)
        assert 0 <= recovery.ready <= BOUND
    assert len(found) > 3
    assert stats(backend) == (2_500, True)
    assert raw.hlen(partition.key("lease_members")) == 0


def test_a_settle_call_for_many_leases_of_a_partition_is_cut_up(backend, monkeypatch):
    add(backend, *(f"job {number}" for number in range(2_500)))
    held: list[Lease] = []
    while more := lease(backend, limit=1_000):
        held += more
    sizes: list[int] = []
    send = Node.send

    def measured(self, commands):
        sizes.extend(len(words) for words in commands)
        return send(self, commands)

    monkeypatch.setattr(Node, "send", measured)
    assert backend.renew(held, 600.0).refused == []
    assert backend.complete([Completion(lease=one) for one in held]) == []
    assert sum(sizes) > 5_000
    assert max(sizes) < 1_100


def test_leases_without_an_expiry_are_found_some_in_each_trim(backend, raw, partition):
    add(backend, *(f"job {number}" for number in range(MANY)))
    held = 0
    while more := lease(backend, limit=1_000):
        held += len(more)
    assert held == MANY
    raw.delete(partition.key("expiry"))
    found = []
    while sum(found) < MANY:
        backend.trim(["default"], 100)
        found.append(backend.recover_expired(["default"], 10_000).ready)
        assert found[-1] < 2 * BOUND
    assert len(found) > 2
    assert stats(backend) == (MANY, True)


def test_jobs_in_no_index_are_found_among_many_some_in_each_call(backend, raw, partition, monkeypatch):
    add(backend, *(f"job {number}" for number in range(MANY)))
    lost = {entry[6:].decode() for entry in raw.lpop(partition.key("ready2"), 1_500)}
    sizes: list[int] = []
    receive = Node.receive

    def measured(self, line, count):
        answers = receive(self, line, count)
        lists = [one for one in answers if isinstance(one, list) and one]
        sizes.extend(len(one[-1]) if isinstance(one[-1], list) else len(one) for one in lists)
        return answers

    with monkeypatch.context() as patched:
        patched.setattr(Node, "receive", measured)
        while stats(backend) != (MANY, True):
            backend.trim(["default"], 100)
    assert sum(sizes) > MANY
    assert max(sizes) <= BOUND
    assert {entry[6:].decode() for entry in raw.lrange(partition.key("ready2"), -1_500, -1)} == lost
    backend.trim(["default"], 100)
    assert stats(backend) == (MANY, True)


def test_nothing_is_restored_while_more_comes_than_can_be_told_apart(backend, raw, partition):
    add(backend, "lost", *(f"job {number}" for number in range(1_500)))
    raw.lpop(partition.key("ready2"))
    words = (b"", b"channel", 0, b"lost")
    assert backend._store.calls.one(scripts.RESTORE, partition, *words) == -1
    later = int(raw.time()[0] + 60) * 1_000
    assert backend._store.calls.one(scripts.RESTORE, partition, b"", b"channel", later, b"lost") == 1
    assert backend._store.calls.one(scripts.RESTORE, partition, b"", b"channel", later, b"lost") == 0


def test_a_search_that_finds_nothing_is_not_made_again(backend, raw, partition, monkeypatch):
    """The counts are wrong, and no job is in no index."""
    add(backend, "one")
    raw.hset(partition.key("meta"), "tombstones", 5)
    backend.trim(["default"], 100)
    searched: list[object] = []
    monkeypatch.setattr(repair, "_restore", lambda *words: searched.append(words))
    backend.trim(["default"], 100)
    assert not searched
