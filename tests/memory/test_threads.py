"""Many threads, every move, one store: no job is lost, doubled, or in two states."""

from __future__ import annotations

import random
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from memory.inside import check_inside
from memory.moves import add, bury, complete, lease, retry
from scheduler.errors import BackendClosed, TopologyError
from scheduler.jobs import Priority
from scheduler.leases import Failure, Lease
from scheduler.queues import Retention
from scheduler.states import JobState
from scheduler_backends.memory import MemoryBackend

_QUEUES = ["a", "b", "c"]
_TURNS = 150
_TIMEOUT = 100.0  # seconds: reached only by a failure


@pytest.fixture(autouse=True)
def _many_switches() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def _together(*works: Callable[[], None]) -> None:
    """Run each in a thread of its own, and raise what one raised."""
    raised: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_TIMEOUT)
        assert not thread.is_alive()
    if raised:
        raise raised[0]


@pytest.mark.parametrize("partitions", [1, 8])
def test_all_moves_by_all_threads_leave_lists_and_counts_right(partitions: int) -> None:
    backend = MemoryBackend(partitions=partitions, retention=Retention(succeeded=0.01, cancelled=0.01, dead=1e6))

    def work(seed: int) -> None:
        draw = random.Random(seed)
        held: list[Lease] = []
        ids: list[str] = []
        for turn in range(_TURNS):
            queue = draw.choice(_QUEUES)
            jobs = add(
                backend,
                draw.randrange(4),
                queue=queue,
                priority=draw.choice(list(Priority)),
                max_retries=draw.randrange(3),
                **draw.choice([{}, {}, {"delay": 0.002}, {"delay": 1e6}]),
            )
            ids += [each.job.id for each in jobs]
            held += lease(backend, draw.randint(1, 8), queues=_QUEUES, duration=draw.choice([0.001, 1e6]))
            draw.shuffle(held)
            some, held = held[:3], held[3:]
            settle = draw.choice([complete, bury, retry, lambda backend, some: backend.release(some)])
            settle(backend, some)
            backend.retry([Failure(lease=each, delay=0.001, counted=False) for each in some[:1]])
            backend.renew(held, draw.choice([0.002, 5.0]))
            backend.promote_due(_QUEUES, 5)
            backend.recover_expired(_QUEUES, 5)
            backend.cancel(queue, draw.sample(ids, min(2, len(ids))))
            backend.requeue(queue, draw.sample(ids, min(5, len(ids))))
            backend.trim(_QUEUES, 5)
            if turn % 10 == 0:
                backend.purge(queue, draw.choice([JobState.READY, JobState.SUCCEEDED, JobState.SCHEDULED]), 2)
                backend.list(queue, draw.choice(list(JobState)), limit=5)
                draw.choice([backend.pause, backend.resume])(queue)
                assert all(count >= 0 for numbers in backend.stats() for count in numbers.counts.values())
            if turn % 50 == seed % 50 and seed % 2:
                version = backend.topology(queue).active.version
                with suppress(TopologyError):  # another thread may have promoted a higher one in between
                    backend.promote_queue_version(queue, version + 1 + seed, draw.randint(1, 5))

    _together(*(lambda seed=seed: work(seed) for seed in range(6)))
    check_inside(backend)


def test_every_job_is_leased_by_exactly_one_of_many() -> None:
    backend = MemoryBackend(partitions=4)
    total = 2_000
    produced: list[str] = []
    seen: Counter[str] = Counter()
    done = threading.Event()

    def produce() -> None:
        for _ in range(total // 20):
            produced.extend(each.job.id for each in add(backend, 10, queue="a"))

    def consume() -> None:
        mine: list[str] = []
        while True:
            last = done.is_set()
            leases = lease(backend, 7, queues=["a"])
            mine += [each.job.id for each in leases]
            assert not complete(backend, leases)
            if last and not leases:
                break
        seen.update(mine)

    def produce_all() -> None:
        _together(produce, produce)
        done.set()

    _together(produce_all, consume, consume, consume)
    assert len(produced) == total
    assert seen == Counter(produced)
    assert sum(backend.stats(["a"])[0].counts.values()) == 0


def test_one_lease_is_settled_once_by_many_threads() -> None:
    """Complete, bury, retry and release by many threads with the same leases: each lease is taken by one of them."""
    backend = MemoryBackend(retention=Retention(succeeded=1e6))
    add(backend, 200, queue="a")
    held = list(lease(backend, 200, queues=["a"]))
    accepted: list[int] = []

    def settle(way: Callable[[MemoryBackend, list[Lease]], object]) -> None:
        mine = held.copy()
        random.shuffle(mine)
        accepted.append(sum(not way(backend, [each]) for each in mine))

    ways = [complete, bury, retry, lambda backend, leases: backend.release(leases)]
    _together(*(lambda way=way: settle(way) for way in ways))
    assert sum(accepted) == 200
    check_inside(backend)


def test_a_store_closed_under_its_users_refuses_them_and_nothing_else() -> None:
    backend = MemoryBackend()
    begun = threading.Barrier(5)

    def work() -> None:
        begun.wait(_TIMEOUT)
        with pytest.raises(BackendClosed):
            _work_for_ever(backend)

    def close() -> None:
        begun.wait(_TIMEOUT)
        for _ in range(20):
            add(backend, queue="b")
        backend.close()

    _together(close, *[work] * 4)


def _work_for_ever(backend: MemoryBackend) -> None:
    while True:
        add(backend, 3, queue="a")
        complete(backend, lease(backend, 3, queues=["a"]))
