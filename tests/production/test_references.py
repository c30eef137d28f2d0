"""Nothing of a handler's run stays referenced once it is over: no cycle keeps it until a garbage collection."""

from __future__ import annotations

import gc
import logging
import sys
import threading
import weakref

import pytest

from programs import wait_until
from scheduler import Discard, Producer, Retention, Retry, RetryPolicy, Snooze, Worker, WorkerConfig
from scheduler_backends.memory import MemoryBackend

# pytest keeps each record of a logger that it can find, and with it the exception that the record shows.
QUIET = logging.Logger("quiet")  # noqa: LOG001 - see above
QUIET.addHandler(logging.NullHandler())


class Big:
    """What a handler holds: in its frame, in the exception, in what it returns."""


class CarryingError(Exception):
    def __init__(self, *cargo):
        super().__init__("carries", *cargo)
        self.cargo = cargo


def chained(big):
    try:
        raise CarryingError(big)
    except CarryingError as first:
        raise ExceptionGroup("several", [CarryingError(big), ValueError("other")]) from first


def noted(big):
    error = CarryingError(big)
    error.add_note("with a note")
    try:
        raise error
    finally:
        del error  # a frame that holds its own exception is a cycle of the handler's making


ENDS = {
    "returns": lambda big: {"result": "small"},
    "returns it": lambda big: big,
    "exits": sys.exit,
    "carries it": lambda big: (_ for _ in ()).throw(CarryingError(big)),
    "chains": chained,
    "notes": noted,
    "retries": lambda big: (_ for _ in ()).throw(Retry(big, delay=60.0)),
    "snoozes": lambda big: (_ for _ in ()).throw(Snooze(60.0)),
    "discards": lambda big: (_ for _ in ()).throw(Discard(big)),
}


@pytest.fixture
def no_collection():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("interrupt", [False, True], ids=["plain", "interrupt"])
def test_nothing_of_a_run_stays_referenced(no_collection, interrupt):
    backend = MemoryBackend(retention=Retention(succeeded=60))
    worker = Worker(backend, WorkerConfig(concurrency=2, retry_policy=RetryPolicy.fixed(60.0)), logger=QUIET)
    left: dict[str, list[weakref.ref[object]]] = {}

    def handle(job, ctx):
        big, local = Big(), Big()
        left[job.type] = [weakref.ref(big), weakref.ref(local), weakref.ref(ctx.cancelled)]
        return ENDS[job.type](big)

    for name in ENDS:
        worker.handle(name, handle, interrupt=interrupt)
    with worker:
        for name in ENDS:
            Producer(backend).enqueue(name)
        wait_until(lambda: len(left) == len(ENDS) and worker.health.held == 0)
        wait_until(lambda: not any(ref() for refs in left.values() for ref in refs))
    backend.close()


def test_a_stuck_handler_that_returns_at_last_leaves_nothing_either(no_collection):
    backend = MemoryBackend(retention=Retention(succeeded=60))
    worker = Worker(backend, WorkerConfig(concurrency=2, timeout_grace=0.05, max_stuck=None), logger=QUIET)
    go = threading.Event()
    left: list[weakref.ref[object]] = []

    @worker.handler("stuck")
    def _(job, ctx):
        big = Big()
        left.append(weakref.ref(big))
        go.wait()
        raise CarryingError(big)

    with worker:
        Producer(backend).enqueue("stuck", timeout=0.05, max_retries=0)
        wait_until(lambda: worker.health.stuck == 1)
        go.set()
        wait_until(lambda: worker.health.stuck == 0)
        wait_until(lambda: not left[0]())
    backend.close()
