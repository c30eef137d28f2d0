"""Several threads, processes and isolation levels on the same rows."""

from __future__ import annotations

import multiprocessing
import os
import random
import threading
import time
from collections import Counter

import psycopg
import pytest

from scheduler.errors import BackendUnavailable
from scheduler.identity import new_token
from scheduler.jobs import NewJob
from scheduler.leases import Completion, Failure, Lease
from scheduler.states import JobState
from scheduler_backends.postgres import PostgresBackend

QUEUE = "crowd"


def lease(backend: PostgresBackend, *, limit: int, duration: float = 60.0) -> list[Lease]:
    return list(backend.lease([QUEUE], token=new_token(), worker_id="w", duration=duration, limit=limit))


def deadlocks(url: str) -> int:
    with psycopg.connect(url) as direct:
        row = direct.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").fetchone()
    return row[0]


def hammer(url: str, backend: PostgresBackend, *, seconds: float) -> None:
    """Guarantee 23: eight threads renew, complete, fail and recover overlapping sets in random order."""
    backend.enqueue([NewJob(type="mail", queue=QUEUE, max_retries=1_000_000) for _ in range(500)])
    end = time.monotonic() + seconds
    shared: dict[str, Lease] = {}
    errors: list[BaseException] = []
    finished: Counter[str] = Counter()
    lock = threading.Lock()

    def run(seed: int) -> None:
        dice = random.Random(seed)
        try:
            while time.monotonic() < end:
                for one in lease(backend, limit=100, duration=dice.choice([0.05, 5.0])):
                    shared[one.job.id] = one
                held = list(shared.values())
                dice.shuffle(held)
                held = held[: dice.randrange(1, 500)]
                match dice.randrange(6):
                    case 0 | 1:
                        backend.renew(held, dice.choice([0.05, 5.0]))
                    case 2:
                        done = held[:5]
                        refused = set(backend.complete([Completion(lease=one) for one in done]))
                        with lock:
                            finished.update(one.job.id for one in done if one not in refused)
                    case 3:
                        backend.retry([Failure(lease=one) for one in held])
                    case 4:
                        backend.release(held)
                    case _:
                        backend.recover_expired([QUEUE], 500)
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + 60)
    assert not errors
    assert set(finished.values()) <= {1}, "a job was completed twice"
    (row,) = backend.stats([QUEUE])
    assert sum(row.counts.values()) + len(finished) == 500


@pytest.mark.every_flavour
@pytest.mark.parametrize("seconds", [1.0, pytest.param(10.0, marks=pytest.mark.long)])
def test_bulk_moves_in_any_order_never_deadlock(backend, postgres_url, seconds):
    before = deadlocks(postgres_url)
    hammer(postgres_url, backend, seconds=seconds)
    backend.close()  # a session reports when it ends, at the latest
    assert deadlocks(postgres_url) == before


@pytest.mark.every_flavour
@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_statements_that_a_stricter_isolation_undoes_are_repeated(new_backend, postgres_url, isolation, caplog):
    url = f"{postgres_url}?options=-c%20default_transaction_isolation%3D{isolation.replace(' ', '%5C%20')}"
    backend = new_backend(url)
    hammer(url, backend, seconds=1.0)
    assert isolation in caplog.text
    assert "default_transaction_isolation" in caplog.text


def test_each_job_is_leased_once_by_whom_ever(new_backend):
    backends = [new_backend() for _ in range(3)]
    backends[0].enqueue([NewJob(type="mail", queue=QUEUE) for _ in range(1_000)])
    found: list[list[Lease]] = [[] for _ in backends]

    def run(number: int) -> None:
        while leases := lease(backends[number], limit=17):
            found[number] += leases

    threads = [threading.Thread(target=run, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    ids = Counter(one.job.id for leases in found for one in leases)
    assert len(ids) == 1_000
    assert set(ids.values()) == {1}


def test_two_enqueues_of_the_same_ids_in_opposite_order_store_each_once(new_backend):
    first, second = new_backend(), new_backend()
    ids = [str(number) for number in range(300)]
    new: list[int] = []

    def run(backend: PostgresBackend, order: list[str]) -> None:
        new.append(sum(one.is_new for one in backend.enqueue([NewJob(type="m", queue=QUEUE, id=id) for id in order])))

    threads = [
        threading.Thread(target=run, args=(backend, order))
        for backend, order in ((first, ids), (second, ids[::-1]))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sum(new) == 300


@pytest.mark.parametrize("count", [1, 10, 1_000])
def test_of_many_jobs_some_that_are_there_are_told_apart(backend, count):
    jobs = [NewJob(type="m", queue=QUEUE, id=str(number)) for number in range(count)]
    backend.enqueue(jobs[::2])
    others = [NewJob(type="other", queue=QUEUE, id=job.id) for job in jobs]
    answers = backend.enqueue(others)
    assert [answer.job.id for answer in answers] == [job.id for job in jobs]
    assert [answer.is_new for answer in answers] == [number % 2 == 1 for number in range(count)]
    assert [answer.job.type for answer in answers] == ["m" if number % 2 == 0 else "other" for number in range(count)]


def enqueue_in_child(backend: PostgresBackend, number: int) -> None:
    code = 1
    try:
        for _ in range(100):
            backend.enqueue([NewJob(type="child", queue=QUEUE)])
        backend.close()
        code = 0
    finally:
        os._exit(code)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # the very thing that is tried
def test_children_of_a_fork_share_nothing(backend):
    """Guarantee 27: four of them, and their parent meanwhile."""
    backend.enqueue([NewJob(type="parent", queue=QUEUE)])
    waiter = backend.waiter([QUEUE])
    waiter.wait(10.0)
    fork = multiprocessing.get_context("fork")
    children = [fork.Process(target=enqueue_in_child, args=(backend, number)) for number in range(4)]
    for child in children:
        child.start()
    for _ in range(100):
        backend.enqueue([NewJob(type="parent", queue=QUEUE)])
    for child in children:
        child.join(60)
    assert [child.exitcode for child in children] == [0] * 4
    assert backend.stats([QUEUE])[0].counts[JobState.READY] == 501
    while waiter.wait(0.2):
        pass
    backend.enqueue([NewJob(type="parent", queue=QUEUE)])
    assert waiter.wait(10.0), "the listening connection outlived the children"


@pytest.mark.every_flavour
def test_no_session_is_left_in_a_transaction(backend, postgres_url):
    """A handler may run for hours: nothing of ours is open meanwhile."""
    jobs = [NewJob(type="mail", queue=QUEUE) for _ in range(600)]  # by COPY
    backend.enqueue(jobs)
    held = lease(backend, limit=10)
    backend.renew(held, 60.0)
    backend.retry([Failure(lease=held[0])])
    backend.bury([Failure(lease=held[1])])
    backend.recover_expired([QUEUE], 10)
    backend.cancel(QUEUE, [jobs[-1].id])
    backend.stats()
    with psycopg.connect(postgres_url) as direct:
        states = direct.execute(
            "SELECT state, backend_xmin FROM pg_stat_activity"
            " WHERE application_name = 'scheduler' AND datname = current_database()"
        ).fetchall()
    assert states
    assert set(states) == {("idle", None)}


@pytest.mark.every_flavour
def test_renewals_are_heap_only_updates(new_backend, postgres_url, schema):
    first, backend = new_backend(), new_backend()
    first.enqueue([NewJob(type="mail", queue=QUEUE, payload=b"x" * 200) for _ in range(640)])
    held = lease(first, limit=640)
    first.close()  # its sessions report

    def counted() -> tuple[int, int]:
        with psycopg.connect(postgres_url) as direct:
            return direct.execute(
                "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE schemaname = %s AND relname = 'job'",
                [schema],
            ).fetchone()

    def reported(more_than: int) -> tuple[int, int]:
        deadline = time.monotonic() + 30
        while (found := counted())[0] < more_than:  # a session that ends reports a little later
            assert time.monotonic() < deadline
        return found

    updated, hot = reported(640)
    for _ in range(5):
        backend.renew(held, 60.0)
    backend.close()
    after, hot_after = reported(updated + 5 * 640)
    assert after - updated == 5 * 640
    assert (hot_after - hot) / (after - updated) >= 0.9


def test_work_goes_on_while_a_reader_holds_an_old_snapshot(backend, postgres_url):
    backend.enqueue([NewJob(type="mail", queue=QUEUE) for _ in range(100)])
    with psycopg.connect(postgres_url) as reader:
        reader.execute("SET default_transaction_isolation = 'repeatable read'")
        reader.commit()
        reader.execute("SELECT 1")
        held = lease(backend, limit=100)
        assert backend.complete([Completion(lease=one) for one in held]) == []


def test_a_job_table_that_somebody_locks_is_a_bounded_wait(new_backend, postgres_url, schema):
    backend = new_backend(timeout=0.3)
    backend.enqueue([NewJob(type="mail", queue=QUEUE)])
    with psycopg.connect(postgres_url) as direct:
        direct.execute(f"LOCK TABLE {schema}.job IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(BackendUnavailable):
            lease(backend, limit=1)
    deadline = time.monotonic() + 30
    while True:  # the statement that was given up may have leased it; its session ends on its own
        try:
            assert backend.stats([QUEUE])[0].counts[JobState.READY] <= 1
            return
        except BackendUnavailable:
            assert time.monotonic() < deadline
