"""pgbouncer in transaction mode between the store and the server."""

from __future__ import annotations

import threading

import sqlalchemy as sa

from scheduler.identity import new_token
from scheduler.jobs import NewJob
from scheduler.leases import Completion
from scheduler_backends.postgres import waiter as waiter_module

QUEUE = "pooled"


def test_every_kind_of_call_works(new_backend, new_pgbouncer, postgres_url):
    """Prepared statements and start-up options would not: 105 errors in 480 calls."""
    new_backend().migrate()
    pool = new_pgbouncer(postgres_url)
    backend = new_backend(pool.through(postgres_url), pgbouncer=True, migrate=False)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            for _ in range(20):
                backend.enqueue([NewJob(type="mail", queue=QUEUE)])
                held = backend.lease([QUEUE], token=new_token(), worker_id="w", duration=60.0, limit=4)
                backend.renew(held, 60.0)
                assert backend.complete([Completion(lease=one) for one in held]) == []
                backend.promote_due([QUEUE], 10)
                backend.recover_expired([QUEUE], 10)
        except BaseException as error:
            errors.append(error)
            raise

    backend.enqueue([NewJob(type="mail", queue=QUEUE) for _ in range(600)])  # by COPY
    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors


def test_it_migrates_through_it(new_backend, new_pgbouncer, postgres_url):
    backend = new_backend(new_pgbouncer(postgres_url).through(postgres_url), pgbouncer=True)
    assert backend.migrate() == 1


def test_a_direct_url_for_listening_wakes_at_once(new_backend, new_pgbouncer, postgres_url):
    pooled = new_pgbouncer(postgres_url).through(postgres_url)
    backend = new_backend(pooled, pgbouncer=True, listen_url=postgres_url)
    waiter = backend.waiter([QUEUE])
    assert waiter.wait(10.0)
    while waiter.wait(0.1):
        pass
    backend.enqueue([NewJob(type="mail", queue=QUEUE)])
    assert waiter.wait(10.0)


def test_a_listener_that_receives_nothing_is_detected(new_backend, new_pgbouncer, postgres_url, caplog, monkeypatch):
    """An engine of the caller's own, without an option that says what is behind it."""
    monkeypatch.setattr(waiter_module, "_NONCE_WITHIN", 0.2)
    new_backend().migrate()
    pool = new_pgbouncer(postgres_url)
    url = sa.make_url(pool.through(postgres_url)).set(drivername="postgresql+psycopg")
    engine = sa.create_engine(url, connect_args={"prepare_threshold": None})
    silent = new_backend(engine)
    waiter = silent.waiter([QUEUE])
    assert waiter.wait(10.0)
    assert not waiter.wait(1.0)
    assert "receives nothing" in caplog.text
    silent.enqueue([NewJob(type="mail", queue=QUEUE)])
    assert not waiter.wait(0.1), "it is the worker that polls now"
    waiter.close()
    engine.dispose()
