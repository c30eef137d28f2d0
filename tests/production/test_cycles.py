"""A worker that is started and stopped again and again leaves nothing behind."""

from __future__ import annotations

import gc
import threading
from pathlib import Path

import pytest

from production.conftest import PARAMS, STORES
from scheduler import Producer, Worker, WorkerConfig, backend_from_url

WARM = 9  # cycles after which the connections that a pool keeps are there, nearly all of them
POOL = 10  # connections that a pool may still add; what leaks at each cycle, or at each tenth, is more
MANY = pytest.param(2_000, marks=[pytest.mark.long, pytest.mark.timeout(1_800)])


@pytest.fixture(params=[pytest.param("memory"), *PARAMS])
def backend(request):
    url = "memory://" if request.param == "memory" else STORES[request.param](request)
    backend = backend_from_url(url)
    yield backend
    backend.close()


def threads():
    """Names of threads of ours."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("scheduler")]


def descriptors():
    """How many files and sockets this process has open."""
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("cycles", [120, MANY])
def test_no_thread_socket_or_descriptor_is_leaked(backend, cycles):
    done = threading.Event()
    worker = Worker(backend, WorkerConfig(concurrency=2, poll_interval=0.05))
    worker.handle("work", lambda job, ctx: done.set())
    producer = Producer(backend)
    before = 0
    for cycle in range(cycles):
        with worker:
            if cycle % 5 == 0:
                done.clear()
                producer.enqueue("work")
                assert done.wait(30.0)
        assert threads() == []
        if cycle == WARM:
            before = descriptors()
    assert descriptors() <= before + POOL


@pytest.mark.parametrize("cycles", [10, pytest.param(200, marks=[pytest.mark.long, pytest.mark.timeout(1_800)])])
def test_a_backend_that_is_closed_leaves_nothing_either(place, cycles):
    before = 0
    for cycle in range(cycles):
        backend = backend_from_url(place.url)
        with Worker(backend, WorkerConfig(concurrency=1)):
            backend.ping()
        backend.close()
        del backend
        assert threads() == []
        if cycle == 0:
            before = descriptors()
    assert descriptors() <= before
