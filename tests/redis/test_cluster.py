"""A cluster whose slots move and whose nodes die."""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import partial

import pytest
import redis
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.retry import Retry

from scheduler.errors import BackendUnavailable
from scheduler.identity import new_token
from scheduler.jobs import NewJob
from scheduler.leases import Completion
from scheduler.states import JobState
from wait_timeout import until


def lease(backend, limit=100, duration=600.0):
    return list(backend.lease(["default"], token=new_token(), worker_id="w", duration=duration, limit=limit))


def counts(backend):
    return {state: count for state, count in backend.stats(["default"])[0].counts.items() if count}


def run_all(backend) -> list[str]:
    done = []
    while held := lease(backend):
        assert backend.complete([Completion(lease=one) for one in held]) == []
        done += [one.job.id for one in held]
    return done


def test_partitions_are_spread_over_the_nodes(redis_cluster, new_backend):
    backend = new_backend(redis_cluster.url)
    backend.enqueue([NewJob(type="t") for _ in range(200)])
    layout = backend._store.layouts.of("default")
    nodes = {redis_cluster.node_of_slot(key_slot(one.tag)).port for one in layout.partitions}
    assert len(nodes) > 1
    assert counts(backend) == {JobState.READY: 200}


def test_a_client_of_a_cluster_works_as_well(redis_cluster, new_backend):
    node = redis_cluster.nodes[0]
    client = redis.RedisCluster(host="127.0.0.1", port=node.port, retry=Retry(NoBackoff(), 0))
    backend = new_backend(client)
    backend.enqueue([NewJob(type="t", id=str(number)) for number in range(50)])
    assert sorted(run_all(backend)) == sorted(map(str, range(50)))
    client.close()


def test_jobs_are_found_while_and_after_their_slot_moves(new_redis_cluster, new_backend):
    """MOVED and ASK are followed; a slot in the middle of its move is tried again until it has moved."""
    cluster = new_redis_cluster()
    backend = new_backend(cluster.url, partitions=4)
    backend.enqueue([NewJob(type="t", id=f"a{number}") for number in range(40)])
    slots = {key_slot(one.tag) for one in backend._store.layouts.of("default").partitions}
    done: list[str] = []
    for turn, slot in enumerate(slots):
        source = cluster.node_of_slot(slot)
        target = next(node for node in cluster.nodes if node is not source)
        cluster.begin_migration(slot, target)
        mover = threading.Timer(0.1, cluster.finish_migration, (slot, target))  # while the calls below go on
        mover.start()
        until(partial(enqueues, backend, turn))
        until(lambda: counts_answer(backend))
        mover.join(30)
        held = lease(backend, 5)
        done += [one.job.id for one in held]
        assert backend.complete([Completion(lease=one) for one in held]) == []
    done += run_all(backend)
    expected = [f"a{number}" for number in range(40)] + [
        f"b{turn}-{number}" for turn in range(len(slots)) for number in range(8)
    ]
    assert sorted(done) == sorted(expected)


def enqueues(backend, turn: int) -> bool:
    try:
        backend.enqueue([NewJob(type="t", id=f"b{turn}-{number}") for number in range(8)])
    except BackendUnavailable:
        return False
    return True


def counts_answer(backend) -> bool:
    try:
        backend.stats(["default"])
    except BackendUnavailable:
        return False
    return True


def test_one_dead_node_does_not_hide_what_others_hold(new_redis_cluster, new_backend):
    cluster = new_redis_cluster()
    for node in cluster.nodes:
        node.command("CONFIG", "SET", "cluster-require-full-coverage", "no")
    backend = new_backend(cluster.url, partitions=12, timeout=1.0)
    backend.enqueue([NewJob(type="t", max_retries=1_000) for _ in range(120)])
    partitions = backend._store.layouts.of("default").partitions
    dead = cluster.node_of_slot(key_slot(partitions[0].tag))
    lost = {one.number for one in partitions if cluster.node_of_slot(key_slot(one.tag)) is dead}
    dead.kill()
    seen: set[int] = set()

    def all_others_were_served() -> bool:
        # On a loaded machine an answer of a healthy node may be late too; what it has leased comes back by recovery.
        with suppress(BackendUnavailable):
            backend.recover_expired(["default"], 100)
            held = lease(backend, duration=2.0)
            seen.update(one.job.partition for one in held)
            backend.complete([Completion(lease=one) for one in held])
        return seen >= {one.number for one in partitions} - lost

    until(all_others_were_served)
    with pytest.raises(BackendUnavailable):
        backend.stats(["default"])
    dead.start()
    cluster.wait_until_complete()
    until(lambda: counts_answer(backend))

    def nothing_is_left() -> bool:
        backend.recover_expired(["default"], 100)
        run_all(backend)
        return not counts(backend)

    until(nothing_is_left)
