"""
Handlers interrupted at random while they log, enqueue, read and hold the library's locks.

Afterwards no lock is held by nobody, no thread is lost, and no interrupt was swallowed.
"""

from __future__ import annotations

import logging
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from io import TextIOWrapper

import pytest

from scheduler.abilities import TopologyAdmin
from scheduler.jobs import Job
from scheduler.leases import Completion
from scheduler.metrics import CountingMetrics
from scheduler.producer import Producer
from scheduler.states import JobState
from scheduler.testing import drain
from scheduler.worker import JobContext
from worker.harness import SOON, WorkerHarness

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # while threads run: part of the storm

_THREADS = 4
_LONGEST = 0.04  # seconds until an interrupt


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    """A logger as programs have them, with a handler that writes, and so takes its lock each time."""
    log = logging.getLogger("tests.interrupt_storm")
    with TextIOWrapper(open(os.devnull, "wb")) as stream:  # noqa: PTH123 - closed by the wrapper
        handler = logging.StreamHandler(stream)
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        log.propagate = False
        yield log
        log.removeHandler(handler)


@pytest.fixture
def _switching_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before)


class LoggingMetrics(CountingMetrics):
    """Takes a lock of its own and that of a log handler, inside a guard that drops what it raises."""

    def __init__(self, log: logging.Logger) -> None:
        super().__init__()
        self._log = log

    def enqueued(self, job: Job, is_new: bool) -> None:  # noqa: FBT001 - a hook
        super().enqueued(job, is_new)
        self._log.info("enqueued %s", job.id)


class Restless:
    """A handler that does all of this until it is interrupted, or until a moment close to its timeout."""

    def __init__(self, harness: WorkerHarness, log: logging.Logger) -> None:
        self._backend = harness.backend.wrapped
        self._queue = harness.queue
        self._other = f"{harness.queue}-other"
        self._log = log
        self._lock = threading.Lock()
        self._condition = threading.Condition()
        self.metrics = LoggingMetrics(log)
        self._producer = Producer(self._backend, metrics=self.metrics)
        self.steps: list[Callable[[JobContext], object]] = [
            lambda ctx: self._log.info("at work on %s", ctx.job.id),
            lambda ctx: self._producer.enqueue("later", queue=self._other),
            lambda ctx: self._producer.enqueue("later", queue=self._other, delay=60.0),
            lambda ctx: self._backend.get(self._queue, [ctx.job.id]),
            lambda ctx: self._backend.list(self._other, JobState.READY, limit=3),
            lambda ctx: self._backend.stats([self._queue]),
            lambda ctx: self._backend.cancel(self._other, ["none"]),
            lambda ctx: self.metrics.counts,
            lambda ctx: ctx.cancelled.is_set(),
            lambda ctx: self._held(),
            lambda ctx: _fork(),
        ]

    def _held(self) -> None:
        with self._lock:
            sum(range(50))
        with self._condition:
            self._condition.notify_all()

    def __call__(self, job: Job, ctx: JobContext) -> None:
        random_steps = random.Random(job.id)
        end = time.monotonic() + job.timeout * random_steps.choice((0.9, 1.0, 1.1, 1e6, 1e6, 1e6))
        few = random_steps.sample(self.steps, k=random_steps.randint(1, len(self.steps)))
        while time.monotonic() < end:
            random_steps.choice(few)(ctx)

    def assert_free(self) -> None:
        """Every lock that a handler has used can be had."""
        with ExitStack() as held:
            for handler in self._log.handlers:
                assert handler.lock is not None
                assert handler.lock.acquire(timeout=SOON), "a log handler's lock is held by nobody"
                held.callback(handler.lock.release)
            assert self._lock.acquire(timeout=SOON)
            assert self._condition.acquire(timeout=SOON)
            assert self.metrics._locks.get(threading.RLock).acquire(timeout=SOON)


def _fork() -> None:
    """A child that ends at once: what counts is what the fork does to the parent."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def assert_every_call_works(harness: WorkerHarness) -> None:
    """On a thread that may be lost: a lock that is held for ever would keep the test."""
    backend, queue = harness.backend.wrapped, f"{harness.queue}-after"
    failed: list[BaseException] = []

    def calls() -> None:
        try:
            producer = Producer(backend)
            producer.enqueue_many([producer.new_job("later", queue=queue) for _ in range(5)])
            (lease,) = backend.lease([queue], token=os.urandom(16).hex(), worker_id="w", duration=60.0, limit=1)
            assert not backend.renew([lease], 60.0).refused
            assert not backend.complete([Completion(lease=lease)])
            backend.promote_due([queue], 10)
            backend.recover_expired([queue], 10)
            backend.list(queue, JobState.READY)
            backend.pause(queue)
            backend.resume(queue)
            if isinstance(backend, TopologyAdmin):
                backend.topology(queue)
            assert drain(backend, {"later": lambda job, ctx: None}, queues=[queue]).succeeded == 4
            backend.trim([queue], 10)
            backend.ping()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=calls, daemon=True)
    thread.start()
    thread.join(SOON)
    assert not thread.is_alive(), "a call waits for a lock that is held by nobody"
    assert not failed, failed


def storm(harness: WorkerHarness, log: logging.Logger, jobs: int) -> tuple[int, int]:
    """So many of them, and what must be true afterwards; (how many timed out, how many succeeded)."""
    restless = Restless(harness, log)
    worker = harness.worker(restless, interrupt=True, concurrency=_THREADS, timeout_grace=SOON, poll_interval=1.0)
    meet = threading.Barrier(_THREADS)
    worker.handle("meet", lambda job, ctx: meet.wait(SOON))
    kinds: list[str] = []
    with worker:
        left = jobs
        while left:
            some = min(left, 200)
            ids = [harness.add(timeout=random.uniform(0.002, _LONGEST), max_retries=0).id for _ in range(some)]
            harness.until_finished(*ids, within=4 * SOON)
            for job in (harness.job(id) for id in ids):
                kinds.append(job.state if job.state is JobState.SUCCEEDED else job.errors[0].kind)
                assert not job.errors or "was interrupted at its timeout" in job.errors[0].message, job.errors
            left -= some
        assert worker.health.stuck == 0
        assert set(kinds) <= {JobState.SUCCEEDED, "JobTimeout"}
        harness.until_finished(*(harness.add(type="meet").id for _ in range(_THREADS)))
        assert not meet.broken, "a thread is lost"
        restless.assert_free()
        assert_every_call_works(harness)
    return kinds.count("JobTimeout"), kinds.count(JobState.SUCCEEDED)


@pytest.mark.every_store
@pytest.mark.usefixtures("_switching_often")
def test_interrupts_at_random_moments_leave_no_lock_held_and_lose_no_thread(
    harness: WorkerHarness, log: logging.Logger
) -> None:
    timed_out, succeeded = storm(harness, log, 60)
    assert timed_out > 10
    assert timed_out + succeeded == 60


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.every_store
@pytest.mark.usefixtures("_switching_often")
def test_two_thousand_interrupts_leave_no_lock_held_and_lose_no_thread(
    harness: WorkerHarness, log: logging.Logger, record_property: Callable[[str, object], None]
) -> None:
    timed_out, succeeded = storm(harness, log, 2_000)
    record_property("timed out", timed_out)
    sys.stdout.write(f"{timed_out} timed out, {succeeded} succeeded\n")
    assert timed_out > 1_000
    assert timed_out + succeeded == 2_000
