"""A worker's calls cost as much as there is to do, however many queues and partitions it serves; hints may be lost."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from scheduler.errors import BackendUnavailable
from scheduler.identity import new_token
from scheduler.jobs import NewJob
from scheduler.leases import Completion, Lease
from scheduler.topology import partition_of
from scheduler_backends.redis import RedisBackend, marks, served
from scheduler_backends.redis.layouts import Layouts
from wait_timeout import WAIT_TIMEOUT, until

QUEUES = tuple(f"queue {number}" for number in range(40))  # of 8 partitions each


def lease(backend: RedisBackend, limit: int = 1_000, *, duration: float = 60.0, queues=QUEUES) -> list[Lease]:
    return list(backend.lease(queues, token=new_token(), worker_id="w", duration=duration, limit=limit))


def complete(backend: RedisBackend, leases: list[Lease]) -> None:
    assert not backend.complete([Completion(lease=one) for one in leases])


def drain(backend: RedisBackend) -> int:
    count = 0
    while leases := lease(backend):
        complete(backend, leases)
        count += len(leases)
    return count


def hints(backend: RedisBackend) -> served.Served:
    return backend._store.serving.of(QUEUES)


@contextmanager
def listening(backend: RedisBackend, queues=QUEUES) -> Iterator[None]:
    """As a worker does: another thread waits for the news."""
    waiter = backend.waiter(queues)
    ended = threading.Event()

    def listen() -> None:
        while not ended.is_set():
            try:
                waiter.wait(WAIT_TIMEOUT)
            except BackendUnavailable:
                ended.wait(0.01)

    thread = threading.Thread(target=listen)
    thread.start()
    try:
        until(lambda: backend._store.serving._listeners)
        yield
    finally:
        ended.set()
        waiter.interrupt()
        thread.join()
        waiter.close()


@pytest.fixture
def commands(raw, redis_prefix) -> Iterator[Callable[[Callable[[], object]], tuple[int, int]]]:
    """Tells how many commands a call sends, and how many run in all, those in scripts included, as MONITOR shows it."""

    def counted(call: Callable[[], object]) -> tuple[int, int]:
        sent = inside = 0
        end = new_token()
        with raw.monitor() as monitor:
            call()
            raw.echo(end)
            while end not in (command := monitor.next_command())["command"]:
                if command["client_type"] == "lua":
                    inside += 1
                elif redis_prefix in command["command"]:
                    sent += 1
        return sent, sent + inside

    return counted


@pytest.fixture
def worker(new_backend, redis_url) -> Iterator[RedisBackend]:
    """A backend that listens, and that has looked at all of its partitions, which exist and are empty."""
    backend = new_backend(redis_url)
    new_backend(redis_url).enqueue([NewJob(type="t", queue=queue) for queue in QUEUES for _ in range(32)])
    with listening(backend):
        until(lambda: drain(backend) == 0)
        look_around(backend)
        yield backend


def look_around(backend: RedisBackend) -> None:
    lease(backend)
    backend.promote_due(QUEUES, 1_000)
    backend.recover_expired(QUEUES, 1_000)


def test_calls_that_find_nothing_cost_little(worker, commands):
    sent, inside = commands(lambda: [lease(worker) for _ in range(10)])
    assert sent <= 10 * 3, "whether a layout has changed, and a look at two partitions"
    assert inside <= sent
    sent, inside = commands(lambda: [worker.promote_due(QUEUES, 1_000) for _ in range(10)])
    assert sent <= 10 * 10, "whether a layout has changed, one layout, and a look at eight partitions"
    assert inside <= 10 * 60
    sent, inside = commands(lambda: [worker.recover_expired(QUEUES, 1_000) for _ in range(10)])
    assert sent <= 10 * 12, "the marks, whether a layout has changed, eight partitions"
    assert inside <= 10 * 110


def test_a_job_costs_as_much_as_if_its_queue_were_the_only_one(worker, commands, new_backend, redis_url):
    producer = new_backend(redis_url)
    producer.enqueue([NewJob(type="t", queue=QUEUES[7])])
    until(lambda: hints(worker)._ready)
    held: list[Lease] = []
    sent, _ = commands(lambda: held.extend(lease(worker, 10)))
    assert len(held) == 1
    assert sent <= 5
    sent, _ = commands(lambda: complete(worker, held))
    assert sent == 1


def test_jobs_that_are_known_cost_no_work_for_partitions_of_which_nothing_is_known(worker, new_backend, redis_url):
    def steps() -> int:
        new_backend(redis_url).enqueue([NewJob(type="t", queue=QUEUES[7])])
        until(lambda: hints(worker)._ready)
        count = 0

        def step(*_: object) -> None:
            nonlocal count
            count += 1

        sys.setprofile(step)
        try:
            leases = lease(worker, 1)
        finally:
            sys.setprofile(None)
        complete(worker, leases)
        return count

    usual = min(steps() for _ in range(4))  # one call in a few looks at others in turn
    worker._store.serving.note_outage()  # as after a lost connection: any partition may have jobs
    assert min(steps() for _ in range(4)) < 2 * usual


def test_a_delayed_job_is_known_without_asking_all(worker, commands, new_backend, redis_url):
    producer = new_backend(redis_url)
    producer.enqueue([NewJob(type="t", queue=QUEUES[21], delay=30.0)])
    until(lambda: served.NOW in hints(worker)._due.values())
    found: list[float | None] = []
    sent, _ = commands(lambda: found.append(worker.promote_due(QUEUES, 1_000).next_due))
    assert found[0] == pytest.approx(30.0, abs=WAIT_TIMEOUT)
    assert sent <= 11
    assert worker.promote_due(QUEUES, 1_000).next_due == pytest.approx(30.0, abs=WAIT_TIMEOUT)


def test_delayed_jobs_of_many_queues_all_become_ready(worker, new_backend, redis_url):
    new_backend(redis_url).enqueue([NewJob(type="t", queue=queue, delay=0.05) for queue in QUEUES for _ in range(5)])
    done = []

    def all_done() -> bool:
        worker.promote_due(QUEUES, 1_000)
        done.extend(leases := lease(worker))
        complete(worker, leases)
        return len(done) == 5 * len(QUEUES)

    until(all_done)


def test_what_was_enqueued_while_nobody_listened_is_found(new_backend, redis_url):
    backend, producer = new_backend(redis_url), new_backend(redis_url)
    for _ in range(2):
        producer.enqueue([NewJob(type="t", queue=queue) for queue in QUEUES])
        producer.enqueue([NewJob(type="t", queue=QUEUES[3], delay=60.0)])
        with listening(backend):
            assert drain(backend) == len(QUEUES)
            assert backend.promote_due(QUEUES, 1_000).next_due == pytest.approx(60.0, abs=WAIT_TIMEOUT)


def test_without_a_listener_every_call_is_exact(new_backend, redis_url):
    backend, producer = new_backend(redis_url), new_backend(redis_url)
    for queue in QUEUES[::5]:
        assert lease(backend) == []
        producer.enqueue([NewJob(type="t", queue=queue), NewJob(type="t", queue=queue, delay=0.001)])
        until(lambda: backend.promote_due(QUEUES, 1_000).moved)
        assert drain(backend) == 2


def test_who_waits_and_leases_in_turn_misses_nothing(new_backend, redis_url):
    """A message that nobody has read yet must not make a lease answer that nothing is there."""
    backend, producer = new_backend(redis_url), new_backend(redis_url)
    waiter = backend.waiter(QUEUES)
    waiter.wait(WAIT_TIMEOUT)
    for queue in QUEUES[::5]:
        producer.enqueue([NewJob(type="t", queue=queue)])
        assert len(lease(backend)) == 1
    waiter.close()


def test_news_that_were_lost_are_found_by_the_slow_round(worker, new_backend, redis_url, monkeypatch):
    monkeypatch.setattr(served, "LOOK_EVERY", 0.0)
    producer = new_backend(redis_url)
    producer.enqueue([NewJob(type="t", queue=QUEUES[11]), NewJob(type="t", queue=QUEUES[30], delay=0.001)])
    until(lambda: hints(worker)._ready and served.NOW in hints(worker)._due.values())
    hints(worker)._ready.clear()
    hints(worker)._due.clear()
    found: list[Lease] = []

    def both_found() -> bool:
        worker.promote_due(QUEUES, 1_000)
        found.extend(lease(worker))
        return len(found) == 2

    until(both_found)


# ---- leases of holders that have vanished

HOLDER = """
import sys, time
from scheduler.identity import new_token
from scheduler_backends.redis import RedisBackend, RedisConfig
backend = RedisBackend(sys.argv[1], RedisConfig(prefix=sys.argv[2]))
held = 0
while leases := backend.lease(sys.argv[3:], token=new_token(), worker_id="h", duration=1.0, limit=1000):
    held += len(leases)
print(held, flush=True)
time.sleep(600)
"""


def hold_and_die(redis_url: str, prefix: str) -> int:
    command = [sys.executable, "-c", HOLDER, redis_url, prefix, *QUEUES]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        held = int(holder.stdout.readline())
        holder.send_signal(signal.SIGKILL)
    return held


def expiries(worker: RedisBackend, raw) -> list[float]:
    """When the leases end, in seconds since 1970."""
    with raw.pipeline(transaction=False) as pipeline:
        for partition in worker._store.serving.of(QUEUES).partitions:
            pipeline.zrange(partition.key("expiry"), 0, -1, withscores=True)
        return [score / 1_000 for scores in pipeline.execute() for _, score in scores]


def test_what_a_killed_holder_held_comes_back_though_it_is_in_every_partition(
    worker, new_backend, redis_url, redis_prefix, raw
):
    new_backend(redis_url).enqueue([NewJob(type="t", queue=queue) for queue in QUEUES for _ in range(32)])
    held = hold_and_die(redis_url, redis_prefix)
    assert held > 900
    # Until the last one has expired: otherwise, some would come back in separate calls.
    until(lambda: all(ends < time.time() for ends in expiries(worker, raw)))
    back = 0
    calls = 0

    def all_back() -> bool:
        nonlocal back, calls
        recovery = worker.recover_expired(QUEUES, 1_000)
        back += recovery.ready + recovery.dead
        calls += bool(recovery.ready)
        return back == held

    until(all_back)
    assert calls <= 10, "not by the slow round"


def test_leases_are_found_behind_very_many_marks_of_queues_that_nobody_serves(
    worker, new_backend, redis_url, redis_prefix, raw
):
    key = worker._store.keys.shared.key("leases")
    for start in range(0, 3 * marks.PAGES * marks.PAGE, 1_000):
        raw.zadd(key, {f"nobody's {number}": 1 + number for number in range(start, start + 1_000)})
    new_backend(redis_url).enqueue([NewJob(type="t", queue=queue) for queue in QUEUES for _ in range(32)])
    held = hold_and_die(redis_url, redis_prefix)
    until(lambda: all(ends < time.time() for ends in expiries(worker, raw)))
    back = rests = 0
    while back < held:
        recovery = worker.recover_expired(QUEUES, 1_000)
        back += recovery.ready
        rests += recovery.next_expiry != 0.0  # a worker then waits for its interval
    assert rests <= 2, "to read to the end of the marks, and once more from their beginning"


def test_leases_whose_marks_were_lost_are_found_by_the_slow_round(worker, new_backend, redis_url, redis_prefix, raw):
    new_backend(redis_url).enqueue([NewJob(type="t", queue=queue) for queue in QUEUES])
    held = hold_and_die(redis_url, redis_prefix)
    assert held == len(QUEUES)
    raw.delete(worker._store.keys.shared.key("leases"))
    back = 0

    def all_back() -> bool:
        nonlocal back
        recovery = worker.recover_expired(QUEUES, 1_000)
        back += recovery.ready + recovery.dead
        return back == held

    until(all_back)


def test_a_mark_is_written_before_the_lease(new_backend, redis_url, raw):
    backend = new_backend(redis_url)
    backend.enqueue([NewJob(type="t", queue=queue) for queue in QUEUES[:12]])
    lease(backend)
    lists = backend._store.keys.shared.key("leases").decode()
    seen: list[str] = []
    backend.enqueue([NewJob(type="t", queue=queue, id="j") for queue in QUEUES[12:24]])
    end = new_token()
    with raw.monitor() as monitor:
        assert len(lease(backend)) == 12
        raw.echo(end)
        while end not in (command := monitor.next_command()["command"]):
            if command.startswith(f"ZADD {lists}"):
                seen.append("mark")
            elif command.startswith("HSET") and ":x " in command:
                seen.append("lease")
    assert seen[0] == "mark"
    assert seen.count("lease") == 12


def test_marks_of_jobs_that_are_done_go_without_a_look(new_backend, redis_url, raw, monkeypatch):
    monkeypatch.setattr(marks, "FRESH", 0.0)
    backend = new_backend(redis_url)
    backend.enqueue([NewJob(type="t", queue=queue) for queue in QUEUES])
    held = lease(backend)
    key = backend._store.keys.shared.key("leases")
    assert raw.zcard(key) == len({(one.job.queue, one.job.partition) for one in held})
    complete(backend, held[1:])
    backend.recover_expired(QUEUES, 1_000)
    assert raw.zcard(key) == 1, "the one that is still held"
    complete(backend, held[:1])
    backend.recover_expired(QUEUES, 1_000)
    assert not raw.exists(key)


@pytest.mark.parametrize("first", [True, False])
def test_a_mark_never_lies_behind_the_first_expiry(new_backend, redis_url, first):
    """A long lease and a short one in the same partition, by two holders, in either order."""
    one, other, third = (new_backend(redis_url, partitions=16) for _ in range(3))
    one.enqueue([NewJob(type="t", id="a")])
    lease(*((one, 10) if first else (other, 10)), duration=60.0 if first else 0.05, queues=["default"])
    one.enqueue([NewJob(type="t", id=next(same_partition("a", 16)))])
    lease(*((other, 10) if first else (one, 10)), duration=0.05 if first else 60.0, queues=["default"])
    until(lambda: third.recover_expired(["default"], 10).ready == 1)


def same_partition(name: str, partitions: int) -> Iterator[str]:
    wanted = partition_of(name, partitions)
    return (f"{number}" for number in range(10_000) if partition_of(f"{number}", partitions) == wanted)


def test_marks_that_cannot_be_kept_stop_nobody(new_backend, redis_url, raw):
    backend = new_backend(redis_url)
    raw.set(backend._store.keys.shared.key("leases"), "of a wrong type")
    backend.enqueue([NewJob(type="t", queue=queue) for queue in QUEUES])
    assert drain(backend) == len(QUEUES)
    assert backend.recover_expired(QUEUES, 1_000).ready == 0


# ---- layouts that change


def test_a_listener_learns_of_a_version_that_is_new(worker, new_backend, redis_url):
    other = new_backend(redis_url)
    other.promote_queue_version(QUEUES[5], 2, 16)
    other.enqueue([NewJob(type="t", queue=QUEUES[5]) for _ in range(40)])
    done: list[Lease] = []

    def all_done() -> bool:
        done.extend(lease(worker))
        return len(done) == 40

    until(all_done)
    assert {one.job.queue_version for one in done} == {2}


def test_a_version_whose_maker_died_before_it_told_anybody_is_learned_of(worker, new_backend, redis_url, monkeypatch):
    """Whoever opens its first gate tells of it before a job can enter."""
    with monkeypatch.context() as patched:
        patched.setattr(Layouts, "number_change", lambda *_: None)
        new_backend(redis_url).promote_queue_version(QUEUES[5], 2, 16)
    new_backend(redis_url).enqueue([NewJob(type="t", queue=QUEUES[5], id="j")])
    assert [one.job.queue_version for one in lease(worker)] == [2], "in the first call after that"


def test_a_queue_that_is_new_is_served(new_backend, redis_url):
    backend, producer = new_backend(redis_url), new_backend(redis_url)
    with listening(backend):
        for queue in QUEUES[:12]:
            assert lease(backend) == []
            producer.enqueue([NewJob(type="t", queue=queue)])
            assert len(lease(backend)) == 1


def test_a_store_that_has_lost_its_changes_is_read_again(worker, new_backend, redis_url, raw):
    raw.delete(worker._store.keys.shared.key("changes"))
    other = new_backend(redis_url)
    other.promote_queue_version(QUEUES[9], 2, 3)
    other.enqueue([NewJob(type="t", queue=QUEUES[9], id="j")])
    assert [one.job.queue_version for one in lease(worker)] == [2]


@pytest.mark.parametrize("limit", [1, 10, 64])
@pytest.mark.parametrize(("queues", "partitions"), [(16, 16), (12, 8), (40, 8), (3, 128)])
def test_each_partition_gets_its_turn_while_all_have_jobs(new_backend, redis_url, queues, partitions, limit) -> None:
    names = QUEUES[:queues]
    new_backend(redis_url, partitions=partitions).enqueue(
        [NewJob(type="t", queue=name) for name in names for _ in range(24 * partitions)]
    )
    backend = new_backend(redis_url, partitions=partitions)
    with listening(backend, names):
        until(lambda: lease(backend, limit, queues=names))
        backend.promote_due(names, 1)
        left = {(name, number) for name in names for number in range(partitions)}
        visits = 2 * len(left)
        while left and visits > 0:
            given = {(one.job.queue, one.job.partition) for one in lease(backend, limit, queues=names)}
            visits -= len(given)
            left -= given
    assert not left


def test_hints_that_others_have_settled_cost_few_round_trips(new_backend, redis_url, trips) -> None:
    new_backend(redis_url).enqueue([NewJob(type="t", queue=queue) for queue in QUEUES for _ in range(32)])
    backend, other = new_backend(redis_url), new_backend(redis_url)
    with listening(backend):
        assert len(lease(backend, 1)) == 1  # it has looked at all by now
        while lease(other):
            pass
        trips.clear()
        assert lease(backend, 1) == []
    assert len(trips) <= len(QUEUES) + 10, "eight queues at once, a partition of each"
