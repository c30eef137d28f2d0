"""No script works off a whole backlog: what one call leaves, later ones do, and no answer is wrong in between."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scheduler.identity import new_token
from scheduler.jobs import NewJob
from scheduler.leases import Completion, Lease
from scheduler.states import JobState
from scheduler_backends.redis import RedisBackend, scripts
from scheduler_backends.redis.keys import Keys, Partition
from scheduler_backends.redis.nodes import Node

MANY = 5_000
BOUND = 1_000  # jobs in one call of a script


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


def test_the_lease_before_a_cancelled_backlog_does_not_remove_all_of_it(backend, raw, partition):
    cancel_all_but_the_first(backend)
    assert raw.llen(partition.key("ready2")) > MANY
    assert [one.job.id for one in lease(backend, limit=1)] == ["first"]
    left = raw.llen(partition.key("ready2"))
    assert MANY - 2 * BOUND <= left < MANY
    assert stats(backend) == (0, False)
    add(backend, "last")
    assert stats(backend) == (1, True)
    assert [one.job.id for one in lease(backend)] == ["last"]
    assert lease(backend) == []
    assert raw.llen(partition.key("ready2")) == 0


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
        backend._calls.one(scripts.LEASE, partition, b"", 1_000, 1, bytes.fromhex(token), b"w", 1)
    assert raw.hlen(partition.key("leased")) == 2_501
    found = [0]
    while found[-1] < 2_500:
        recovery = backend.recover_expired(["default"], 1)
        found.append(found[-1] + recovery.ready)
        assert 0 <= recovery.ready <= BOUND
    assert len(found) > 3
    assert stats(backend) == (2_500, True)
    assert raw.hlen(partition.key("holding")) == 0


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
