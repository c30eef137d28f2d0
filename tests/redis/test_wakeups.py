"""A waiter whose connection breaks says so, connects anew, and then says that news may have been missed."""

from __future__ import annotations

import threading
import time

import pytest

from scheduler.errors import BackendUnavailable
from scheduler.jobs import NewJob
from scheduler_backends.redis import waiter as waiter_module
from wait_timeout import BOUND, WAIT_TIMEOUT, until


@pytest.fixture
def rung(new_backend, redis_url, new_proxy):
    """A backend, a proxy, and a waiter of another backend that listens through the proxy."""
    proxy = new_proxy(redis_url)
    backend = new_backend(redis_url, partitions=1)
    waiter = new_backend(proxy.url, partitions=1, timeout=0.3).waiter(["default"])
    until(lambda: not raises_unavailable(lambda: waiter.wait(0.05)))  # 0.3 s are short on a loaded machine
    while waiter.wait(0.05):
        pass
    yield backend, proxy, waiter
    waiter.close()


def raises_unavailable(wait) -> bool:
    try:
        wait()
    except BackendUnavailable:
        return True
    return False


def test_a_cut_connection_is_noticed_and_replaced(rung):
    backend, proxy, waiter = rung
    proxy.cut()
    until(lambda: raises_unavailable(lambda: waiter.wait(0.5)))
    backend.enqueue([NewJob(type="t")])  # nobody listens
    assert waiter.wait(0.0)  # but what was missed is looked for
    until(lambda: not waiter.wait(0.05))
    backend.cancel("default", [])
    backend.enqueue([NewJob(type="t", queue="other"), NewJob(type="t", delay=0.01)])
    until(lambda: waiter.wait(1.0))


def test_a_server_away_is_said_at_each_wait_and_found_again(rung):
    backend, proxy, waiter = rung
    proxy.refuse()
    until(lambda: raises_unavailable(lambda: waiter.wait(0.5)))
    assert raises_unavailable(lambda: waiter.wait(0.5))
    proxy.accept()
    until(lambda: not raises_unavailable(lambda: waiter.wait(0.5)))
    until(lambda: not waiter.wait(0.05))
    backend.enqueue([NewJob(type="t")])
    until(lambda: waiter.wait(1.0))


def test_a_connection_that_went_silent_is_found_out(rung, monkeypatch):
    """No answer to a question asked when nothing has come for a while: a firewall has forgotten the connection."""
    _, proxy, waiter = rung
    monkeypatch.setattr(waiter_module, "PING_AFTER", 0.2)
    proxy.black_hole()
    started = time.monotonic()
    until(lambda: raises_unavailable(lambda: waiter.wait(WAIT_TIMEOUT)))
    assert time.monotonic() - started < BOUND
    proxy.heal()
    until(lambda: not raises_unavailable(lambda: waiter.wait(0.5)))


def test_a_quiet_connection_that_answers_is_kept(rung, monkeypatch):
    backend, proxy, waiter = rung
    monkeypatch.setattr(waiter_module, "PING_AFTER", 0.02)
    open_before = proxy.connections
    for _ in range(20):
        assert not waiter.wait(0.05)
    assert proxy.connections == open_before
    backend.enqueue([NewJob(type="t")])
    until(lambda: waiter.wait(1.0))


def test_only_news_are_published(new_backend, redis_url, raw):
    """A list that was not empty, and a due time later than one that is expected, wake nobody."""
    backend = new_backend(redis_url, partitions=1)
    with raw.pubsub(ignore_subscribe_messages=True) as pubsub:
        pubsub.subscribe(backend._store.keys.channel("default").decode())

        def news() -> int:
            count = 0
            raw.publish(backend._store.keys.channel("default").decode(), "end")
            while (message := pubsub.get_message(timeout=WAIT_TIMEOUT)) is None or message["data"] != b"end":
                count += message is not None
            return count

        news()
        backend.enqueue([NewJob(type="t")])
        assert news() == 1
        backend.enqueue([NewJob(type="t") for _ in range(5)])
        assert news() == 0
        backend.enqueue([NewJob(type="t", delay=60.0)])
        assert news() == 1
        backend.enqueue([NewJob(type="t", delay=90.0)])
        assert news() == 0
        backend.enqueue([NewJob(type="t", delay=30.0)])
        assert news() == 1


def test_many_threads_may_interrupt(rung):
    _, _, waiter = rung
    threads = [threading.Thread(target=waiter.interrupt) for _ in range(50)]
    for thread in threads:
        thread.start()
    waiter.wait(WAIT_TIMEOUT)
    for thread in threads:
        thread.join(WAIT_TIMEOUT)
    waiter.wait(0.0)
    started = time.monotonic()
    waiter.wait(0.05)
    assert time.monotonic() - started < BOUND
