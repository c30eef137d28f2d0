"""A store that is away is waited for: no thread ends, finished work is recorded once, and it comes back to no storm."""

from __future__ import annotations

import sqlite3
import time

import pytest

from production.embedded import LEASE, elapse, service_threads
from production.place import Place, url_on_postgres, url_on_redis
from programs import wait_until
from scheduler import BackendUnavailable, Producer, backend_from_url

AWAY = 2.5 * LEASE  # seconds
MOST_CALLS = (
    14  # of one loop during AWAY: it waits 0.05, 0.1, 0.2 ... s, half as long at the least, and once for a timeout
)


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.integration) for name in ("redis", "postgres")])
def store(request):
    """The stores that can be away, which `place` is on."""
    return request.param


@pytest.fixture
def proxy(place, new_proxy):
    return new_proxy(place.url)


@pytest.fixture
def own_server(store, request):
    """A server of this test's own."""
    if store == "redis":
        return request.getfixturevalue("new_redis_server")(persistence="always")
    return request.getfixturevalue("new_postgres_server")()


@pytest.fixture
def own_place(store, own_server, tmp_path):
    """A place on it, which the test may kill and start again."""
    url = url_on_redis(own_server.url, "away") if store == "redis" else url_on_postgres(own_server.url)
    place = Place(url, tmp_path)
    yield place
    place.close()


def add_running(place, crew, count=2):
    ids = [place.add("work", max_retries=3) for _ in range(count)]
    wait_until(lambda: len(crew.runs) == count)
    return ids


def answers(backend):
    try:
        backend.ping()
    except BackendUnavailable:
        return False
    return True


def check_back(place, crew, threads, ids, *, may_be_recovered=False):
    """The worker goes on by itself, with all of its threads, and ran nothing twice, or as often as it was recovered."""
    ids = [*ids, *(place.add("work") for _ in range(4))]
    place.until_finished(*ids)
    assert place.states(ids) == {"succeeded": len(ids)}
    crashes = {id: place.job(id).crashes for id in ids}
    assert crew.runs == {id: 1 + count for id, count in crashes.items()}
    assert may_be_recovered or not any(crashes.values())
    assert service_threads() == threads
    wait_until(lambda: crew.worker.health.held == 0 and crew.worker.health.outage == 0.0)


@pytest.mark.parametrize("how", ["refuse", "black_hole"])
def test_an_outage_longer_than_a_lease_costs_nothing_but_its_time(place, proxy, new_crew, how):
    """Guarantees 6, 22 and 29: handlers finish meanwhile, and what they did is recorded once."""
    crew = new_crew(proxy.url)
    with crew.worker:
        ids = add_running(place, crew)
        threads = service_threads()
        getattr(proxy, how)()
        before = crew.calls.copy()
        crew.go.set()
        elapse(AWAY)
        assert crew.worker.health.outage > 0.0
        assert all(place.job(id).state == "leased" for id in ids)
        assert all(count <= MOST_CALLS for count in (crew.calls - before).values()), crew.calls - before
        proxy.heal()
        # A black hole lets go what it has swallowed: a recovery that was sent before arrives when leases have run out.
        check_back(place, crew, threads, ids, may_be_recovered=how == "black_hole")


def test_a_worker_goes_on_after_its_server_was_killed_and_started_again(own_place, own_server, new_crew):
    """Guarantee 22, busy and then idle."""
    crew = new_crew(own_place.url)
    with crew.worker:
        ids = add_running(own_place, crew)
        threads = service_threads()
        for _ in range(2):
            own_server.kill()
            crew.go.set()
            wait_until(lambda: crew.worker.health.outage > LEASE)
            own_server.start()
            check_back(own_place, crew, threads, ids)
            crew.runs.clear()
            ids = []


@pytest.fixture
def take_writes(store, own_server):
    """Tells the server of `own_place` whether to take writes."""

    def on_redis(*, yes: bool) -> None:
        server_wants = 0 if yes else 1  # replicas, and there are none
        own_server.command("CONFIG", "SET", "min-replicas-to-write", server_wants)

    def on_postgres(*, yes: bool) -> None:
        with psycopg.connect(own_server.url, autocommit=True) as connection:
            connection.execute(f"ALTER SYSTEM SET default_transaction_read_only = {'off' if yes else 'on'}")
            connection.execute("SELECT pg_reload_conf()")

    if store == "redis":
        return on_redis
    psycopg = pytest.importorskip("psycopg")
    return on_postgres


def test_a_store_that_takes_no_writes_is_waited_for(own_place, take_writes, new_crew):
    crew = new_crew(own_place.url)
    with crew.worker:
        ids = add_running(own_place, crew)
        threads = service_threads()
        take_writes(yes=False)
        # The server tells its processes a little later. Some stores only read where there is nothing to lease.
        wait_until(lambda: crew.metrics.counts["call_failed.renew"])
        crew.go.set()
        wait_until(lambda: crew.metrics.counts["call_failed.complete"] >= 3)
        with pytest.raises(BackendUnavailable):
            own_place.add("work")
        assert all(own_place.job(id).state == "leased" for id in ids)
        take_writes(yes=True)
        wait_until(lambda: crew.worker.health.outage == 0.0)
        check_back(own_place, crew, threads, ids)


def test_leases_of_workers_that_were_cut_off_together_are_renewed_and_not_recovered(place, proxy, new_crew):
    """No storm: after an outage each worker renews first, though all leases have run out meanwhile."""
    crews = [new_crew(proxy.url, concurrency=4, queue_buffer=0) for _ in range(3)]
    ids = [place.add("work", max_retries=3) for _ in range(12)]
    for crew in crews:
        crew.worker.start()
    wait_until(lambda: sum(len(crew.runs) for crew in crews) == len(ids))
    proxy.refuse()
    elapse(2 * LEASE)
    proxy.heal()
    before = [crew.calls["recover_expired"] for crew in crews]
    wait_until(lambda: all(crew.calls["recover_expired"] > was for crew, was in zip(crews, before, strict=True)))
    elapse(LEASE)
    for crew, was in zip(crews, before, strict=True):
        assert crew.calls["recover_expired"] - was <= 12  # at most at each expiry and twice an interval
        assert crew.metrics.counts["recovered.ready"] == crew.metrics.counts["recovered.dead"] == 0
        crew.go.set()
    place.until_finished(*ids)
    assert place.states(ids) == {"succeeded": len(ids)}
    assert sum((crew.runs for crew in crews), start=type(crews[0].runs)()) == dict.fromkeys(ids, 1)
    assert all(place.job(id).crashes == 0 for id in ids)


def test_an_outage_shorter_than_a_lease_loses_none(place, proxy, new_crew):
    """Guarantee 29: calls of the other loops hang meanwhile, and a worker that is not cut off recovers nothing."""
    cut_off = new_crew(proxy.url, lease_duration=5.0, heartbeat_interval=0.5)
    watcher = new_crew(place.url, lease_duration=5.0, queues=("default",), concurrency=1)
    with cut_off.worker:
        ids = add_running(place, cut_off)
        with watcher.worker:
            proxy.black_hole()
            elapse(2.5)
            proxy.heal()
            wait_until(lambda: cut_off.worker.health.outage == 0.0)
            elapse(3.0)  # beyond the lease that was there before
            cut_off.go.set()
            place.until_finished(*ids)
        assert cut_off.runs == dict.fromkeys(ids, 1)
        assert watcher.metrics.counts["recovered.ready"] == 0


def test_a_worker_takes_a_lost_answer_for_no_more_than_that(place, proxy, new_crew):
    """Guarantee 7, whatever it had asked for: the store does it, the connection breaks, and nothing runs twice."""
    lost = [proxy.swallow_reply() for _ in range(12)]
    crew = new_crew(proxy.url, lease_duration=20.0)
    crew.go.set()
    ids = []
    with crew.worker:
        while not all(event.is_set() for event in lost):
            ids += [place.add("work", max_retries=3) for _ in range(5)]
            elapse(0.05)
        place.until_finished(*ids)
    assert place.states(ids) == {"succeeded": len(ids)}
    assert crew.runs == dict.fromkeys(ids, 1)
    assert {(job.attempts, job.crashes) for job in map(place.job, ids)} == {(1, 0)}


@pytest.mark.parametrize("warm", [True, False], ids=["warm", "cold"])
@pytest.mark.parametrize("how", ["refuse", "black_hole"])
def test_a_producer_fails_within_seconds_and_works_again_afterwards(place, proxy, how, warm):
    """Guarantee 30: with a connection open before, and with none. The URLs here say timeouts of 1 or 2 s."""
    backend = backend_from_url(proxy.url)
    producer = Producer(backend)
    if warm:
        producer.enqueue("work")
    getattr(proxy, how)()
    began = time.monotonic()
    with pytest.raises(BackendUnavailable) as caught:
        producer.enqueue("work", max_retries=7)
    assert time.monotonic() - began < 10.0
    proxy.heal()
    (answer,) = producer.enqueue_many(caught.value.jobs)
    assert answer.is_new
    assert answer.job.max_retries == 7
    assert sum(place.backend.stats(["default"])[0].counts.values()) == 1 + warm
    backend.close()


def test_a_file_that_somebody_else_keeps_locked_is_waited_for(file_place, new_crew):
    """
    Guarantees 6, 22, 29 and 30, in a file.

    For longer than a lease, such as by a transaction that a handler left open in the file that holds the jobs.
    """
    crew = new_crew(f"{file_place.url}&timeout=0.5")
    with crew.worker:
        ids = add_running(file_place, crew)
        threads = service_threads()
        other = sqlite3.connect(file_place.folder / "jobs.db", isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        crew.go.set()
        elapse(AWAY)
        backend = backend_from_url(f"{file_place.url}&timeout=0.5")
        with pytest.raises(BackendUnavailable, match=r"jobs\.db is (locked|held)"):
            Producer(backend).enqueue("work")
        backend.close()
        other.execute("ROLLBACK")
        other.close()
        check_back(file_place, crew, threads, ids)


@pytest.mark.long
@pytest.mark.integration
def test_a_worker_follows_a_failover(new_sentinel_group, tmp_path, new_crew):
    """A master that dies, and the replica that Sentinel promotes: what was acknowledged there is not lost."""
    group = new_sentinel_group()
    place = Place(url_on_redis(group.url, "away"), tmp_path)
    crew = new_crew(place.url)
    with crew.worker:
        ids = add_running(place, crew)
        threads = service_threads()
        old = group.master
        wait_until(lambda: old.command("WAIT", 1, 100))
        old.kill()
        group.wait_for_other_master(old)
        wait_until(lambda: answers(place.backend))  # not every Sentinel knows of it yet, and a producer asks but once
        crew.go.set()
        check_back(place, crew, threads, ids)
    place.close()
