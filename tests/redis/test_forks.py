"""A fork shares neither sockets nor locks with its parent."""

from __future__ import annotations

import multiprocessing

from scheduler.identity import new_token
from scheduler.jobs import NewJob
from scheduler.leases import Completion
from scheduler.states import JobState
from scheduler_backends.redis import RedisBackend

JOBS = 100


def _work(backend: RedisBackend, name: str) -> None:
    for number in range(JOBS):
        (answer,) = backend.enqueue([NewJob(type="t", id=f"{name}-{number}", payload=name.encode())])
        assert answer.is_new
        assert answer.job.id == f"{name}-{number}"


def test_children_forked_from_a_backend_in_use_work_beside_their_parent(new_backend, redis_url):
    """Guarantee 27."""
    backend = new_backend(redis_url)
    backend.enqueue([NewJob(type="t", id="before")])
    waiter = backend.waiter(["default"])
    waiter.wait(0.01)
    fork = multiprocessing.get_context("fork")
    children = [fork.Process(target=_work, args=(backend, f"child{number}")) for number in range(4)]
    for child in children:
        child.start()
    _work(backend, "parent")
    for child in children:
        child.join(60)
        assert child.exitcode == 0
    assert backend.stats(["default"])[0].counts[JobState.READY] == 5 * JOBS + 1
    waiter.close()


def _lease_and_complete(backend: RedisBackend, done: multiprocessing.SimpleQueue) -> None:
    while leases := backend.lease(["default"], token=new_token(), worker_id="w", duration=60.0, limit=10):
        assert backend.complete([Completion(lease=lease) for lease in leases]) == []
        for lease in leases:
            done.put(lease.job.id)
    done.put(None)


def test_forked_workers_lease_each_job_once(new_backend, redis_url):
    backend = new_backend(redis_url)
    backend.enqueue([NewJob(type="t", id=f"job{number}") for number in range(400)])
    fork = multiprocessing.get_context("fork")
    done = fork.SimpleQueue()
    children = [fork.Process(target=_lease_and_complete, args=(backend, done)) for _ in range(3)]
    for child in children:
        child.start()
    seen: list[str] = []
    ended = 0
    while ended < len(children):
        item = done.get()
        if item is None:
            ended += 1
        else:
            seen.append(item)
    for child in children:
        child.join(60)
    assert sorted(seen) == sorted(f"job{number}" for number in range(400))


def _waits_for_news(backend: RedisBackend, ready, woken) -> None:
    waiter = backend.waiter(["default"])
    waiter.wait(0.0)
    ready.set()
    while not waiter.wait(30.0):
        pass
    woken.set()


def test_a_child_has_wake_ups_of_its_own(new_backend, redis_url):
    backend = new_backend(redis_url)
    waiter = backend.waiter(["default"])
    waiter.wait(0.0)
    fork = multiprocessing.get_context("fork")
    ready, woken = fork.Event(), fork.Event()
    child = fork.Process(target=_waits_for_news, args=(backend, ready, woken))
    child.start()
    assert ready.wait(30)
    backend.enqueue([NewJob(type="t")])
    assert woken.wait(30)
    child.join(30)
    while not waiter.wait(30.0):  # the parent's own is rung as well
        pass
    waiter.close()
