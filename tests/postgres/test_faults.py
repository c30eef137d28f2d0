"""The server away, slow, cut off, restarted; and replies that are lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import psycopg
import pytest

from scheduler.errors import BackendClosed, BackendUnavailable
from scheduler.identity import new_token
from scheduler.jobs import NewJob
from scheduler.leases import Completion, Failure, Lease
from scheduler.states import JobState
from scheduler_backends.postgres import PostgresBackend
from servers.proxy import postgres_is_done

QUEUE = "faults"
BOUND = 30.0  # seconds: generous, reached only by a failure


def new_job(**fields: object) -> NewJob:
    return NewJob(type="mail", queue=QUEUE, **fields)  # type: ignore[arg-type]  # fields by name


def lease(backend: PostgresBackend, token: str | None = None, limit: int = 10) -> list[Lease]:
    return list(backend.lease([QUEUE], token=token or new_token(), worker_id="w", duration=60.0, limit=limit))


def until_it_works(call: Callable[[], object]) -> None:
    """The server is on its way: a caller repeats."""
    deadline = time.monotonic() + BOUND
    while True:
        try:
            call()
        except BackendUnavailable:
            if time.monotonic() > deadline:
                raise
        else:
            return


@pytest.fixture
def proxy(postgres_url, new_proxy, new_backend):
    new_backend().migrate()
    return new_proxy(postgres_url)


def lost(proxy, of: str, call: Callable[[], object]) -> None:
    """Make *call*, whose request holds *of*, take effect while its answer is lost."""
    happened = proxy.swallow_reply(matching=of.encode(), complete=postgres_is_done)
    with pytest.raises(BackendUnavailable):
        call()
    assert happened.wait(BOUND)


def test_an_enqueue_whose_answer_was_lost_may_be_repeated(proxy, new_backend):
    """Guarantee 7, as do the next two."""
    backend = new_backend(proxy.url)
    backend.enqueue([new_job()])  # known queue, warm connection
    job = new_job(payload=b"once")
    lost(proxy, job.id, lambda: backend.enqueue([job]))
    (answer,) = backend.enqueue([job])
    assert answer.is_new
    assert backend.stats([QUEUE])[0].counts[JobState.READY] == 2


def test_a_lease_whose_answer_was_lost_is_found_again_by_its_token(proxy, new_backend):
    backend = new_backend(proxy.url)
    backend.enqueue([new_job() for _ in range(70)])
    worker = "worker-whose-answer-is-lost"
    token = new_token()
    lost(
        proxy,
        worker,
        lambda: backend.lease([QUEUE], token=token, worker_id=worker, duration=60.0, limit=64),
    )
    assert backend.stats([QUEUE])[0].counts[JobState.LEASED] == 64
    found = lease(backend, token, limit=64)
    assert len(found) == 64
    assert {held.job.attempts for held in found} == {1}


@pytest.mark.parametrize("move", ["complete", "retry", "bury", "release"])
def test_a_settle_whose_answer_was_lost_is_answered_refused(proxy, new_backend, move):
    backend = new_backend(proxy.url)
    backend.enqueue([new_job()])
    (held,) = lease(backend)
    given = {"complete": Completion(lease=held), "release": held}.get(move, Failure(lease=held))
    lost(proxy, held.job.id, lambda: getattr(backend, move)([given]))
    assert list(getattr(backend, move)([given])) == [held]
    jobs = backend.get(QUEUE, [held.job.id])
    attempts = [job.attempts for job in jobs.values()]
    assert attempts == {"complete": [], "retry": [1], "bury": [1], "release": [0]}[move]


def test_connections_that_were_cut_while_idle_cost_no_call(proxy, new_backend):
    backend = new_backend(proxy.url)
    backend.enqueue([new_job() for _ in range(8)])
    threads = [threading.Thread(target=lambda: [backend.ping() for _ in range(20)]) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(BOUND)
    proxy.cut()
    for _ in range(8):
        backend.enqueue([new_job()])
    assert len(lease(backend, limit=100)) == 16


def test_a_refused_connection_is_a_clear_error_and_passes(proxy, new_backend):
    backend = new_backend(proxy.url)
    job = new_job()
    proxy.refuse()
    with pytest.raises(BackendUnavailable):
        backend.enqueue([job])
    proxy.accept()
    (answer,) = backend.enqueue([job])
    assert answer.is_new


def test_a_black_hole_is_given_up_within_the_timeout_and_only_that_connection(proxy, new_backend):
    """Guarantees 29 and 30."""
    backend = new_backend(proxy.url, timeout=0.5)
    backend.ping()
    proxy.black_hole()
    begun = time.monotonic()
    with pytest.raises(BackendUnavailable, match="does not reply"):
        backend.enqueue([new_job()])
    assert time.monotonic() - begun < BOUND
    with pytest.raises(BackendUnavailable):  # a new connection hangs as well, and has its bound
        backend.ping()
    proxy.heal()
    until_it_works(backend.ping)


def test_an_exhausted_pool_is_a_bounded_wait_and_a_clear_error(proxy, new_backend):
    backend = new_backend(proxy.url, pool_size=1, pool_timeout=0.2)
    backend.ping()
    proxy.delay(2.0)
    busy = threading.Thread(target=backend.ping)
    busy.start()
    deadline = time.monotonic() + BOUND
    while backend._store.database.engine.pool.checkedout() == 0:  # type: ignore[attr-defined]
        assert time.monotonic() < deadline
    with pytest.raises(BackendUnavailable, match="pool"):
        backend.ping()
    proxy.heal()
    busy.join(BOUND)
    backend.ping()


def test_a_waiter_hears_again_after_its_connection_was_cut(proxy, new_backend):
    backend = new_backend(proxy.url)
    waiter = backend.waiter([QUEUE])
    assert waiter.wait(BOUND)  # connects
    waiter.wait(0.2)
    proxy.cut()
    with pytest.raises(BackendUnavailable):
        waiter.wait(BOUND)
    assert waiter.wait(BOUND), "notifications may have been missed"
    while waiter.wait(0.1):
        pass
    backend.enqueue([new_job()])
    assert waiter.wait(BOUND)


def test_a_closed_backend_says_so(backend):
    backend.ping()
    waiter = backend.waiter([QUEUE])
    backend.close()
    backend.close()
    for call in (backend.ping, lambda: backend.enqueue([new_job()]), lambda: waiter.wait(1.0), backend.migrate):
        with pytest.raises(BackendClosed):
            call()


@pytest.mark.every_flavour
def test_sessions_that_an_administrator_ended_are_replaced(new_backend, postgres_url):
    backend = new_backend()
    backend.enqueue([new_job() for _ in range(4)])
    waiter = backend.waiter([QUEUE])
    assert waiter.wait(BOUND)
    held = lease(backend, limit=2)
    with psycopg.connect(postgres_url) as direct:
        direct.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = 'scheduler'"
        )
    assert backend.complete([Completion(lease=one) for one in held]) == []  # no call fails: none had been sent
    assert len(lease(backend)) == 2
    until_it_works(lambda: waiter.wait(0.5))


@pytest.mark.every_flavour
@pytest.mark.parametrize("how", ["restart", "kill"])
def test_a_server_that_was_restarted_is_found_again(new_postgres_server, new_backend, how):
    """Guarantee 22."""
    server = new_postgres_server()
    backend = new_backend(server.url)
    backend.enqueue([new_job() for _ in range(4)])
    waiter = backend.waiter([QUEUE])
    assert waiter.wait(BOUND)
    held = lease(backend, limit=2)
    if how == "kill":
        server.kill()
        with pytest.raises(BackendUnavailable):
            backend.ping()
        server.start()
    else:
        server.restart()
    until_it_works(lambda: backend.complete([Completion(lease=one) for one in held]))
    until_it_works(lambda: waiter.wait(0.5))
    assert len(lease(backend)) == 2, "what was acknowledged is there"


@pytest.mark.every_flavour
def test_a_frozen_server_is_given_up_within_the_timeout(new_postgres_server, new_backend):
    server = new_postgres_server()
    backend = new_backend(server.url, timeout=0.5)
    backend.enqueue([new_job()])
    server.freeze()
    try:
        for _ in range(2):
            with pytest.raises(BackendUnavailable):
                backend.enqueue([new_job()])
    finally:
        server.thaw()
    until_it_works(backend.ping)
