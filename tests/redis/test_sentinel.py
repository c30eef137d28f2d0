"""Behind Sentinel: a failover is an outage that ends by itself."""

from __future__ import annotations

from scheduler.errors import BackendUnavailable
from scheduler.identity import new_token
from scheduler.jobs import NewJob
from scheduler.leases import Completion
from scheduler.states import JobState
from wait_timeout import until


def answers(call) -> bool:
    try:
        call()
    except BackendUnavailable:
        return False
    return True


def lease(backend):
    return backend.lease(["default"], token=new_token(), worker_id="w", duration=600.0, limit=100)


def test_the_master_is_found_and_after_its_death_the_next_one(new_sentinel_group, new_backend):
    group = new_sentinel_group()
    backend = new_backend(group.url, partitions=2, timeout=1.0)
    waiter = backend.waiter(["default"])
    backend.enqueue([NewJob(type="t", id=f"job{number}") for number in range(20)])
    held = lease(backend)
    waiter.wait(0.05)
    old = group.master
    old.command("WAIT", 1, 5_000)
    old.kill()
    assert not answers(lambda: backend.enqueue([NewJob(type="t", id="refused")]))
    group.wait_for_other_master(old)
    until(lambda: answers(backend.ping))
    assert backend.complete([Completion(lease=one) for one in held]) == []
    backend.enqueue([NewJob(type="t", id="after")])
    assert set(backend.get("default", ["after"])) == {"after"}
    assert backend.stats(["default"])[0].counts[JobState.LEASED] == 0
    until(lambda: answers(lambda: waiter.wait(0.2)))  # the waiter finds the new master as well
    backend.purge("default", JobState.READY, 100)
    until(lambda: not waiter.wait(0.05))
    backend.enqueue([NewJob(type="t", id="news")])
    until(lambda: waiter.wait(1.0))
    waiter.close()


def test_a_planned_failover_leaves_no_connection_to_the_old_master(new_sentinel_group, new_backend):
    """The old master lives on as a replica and answers READONLY, which must not be met for ever."""
    group = new_sentinel_group()
    backend = new_backend(group.url, partitions=1, timeout=1.0)
    backend.enqueue([NewJob(type="t", id="before")])
    group.fail_over()
    until(lambda: answers(lambda: backend.enqueue([NewJob(type="t", id="after")])))
    assert len(lease(backend)) == 2
