"""What must never happen: what handlers and policies do (guarantees 10, 11, 13, 14, 15, 19, 26)."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Callable

import pytest

from scheduler.jobs import Job
from scheduler.producer import Producer
from scheduler.retry import LONGEST_DELAY, RetryPolicy
from scheduler.states import JobState
from scheduler.worker import JobContext
from worker.harness import SOON, WorkerHarness
from worker.hostile import HOSTILE, Plain, WithNul, name_of
from worker.test_runner import Broken

pytestmark = pytest.mark.every_store


@pytest.mark.parametrize("answer", [ZeroDivisionError(), SystemExit(), float("nan"), -5.0, 10.0**300, "soon"])
def test_a_faulty_policy_leads_to_retry_wait_with_a_sane_delay(harness: WorkerHarness, answer: object) -> None:
    """Guarantee 10: it never loses the job."""
    job = harness.add()
    with harness.worker(lambda job, ctx: 1 / 0, retry_policy=Broken(answer)):
        waiting = harness.until_state(job.id, JobState.RETRY_WAIT)
    assert waiting.due_at is not None
    assert 0.0 < (waiting.due_at - waiting.created_at).total_seconds() < LONGEST_DELAY + 3_600.0


@pytest.mark.parametrize(("max_retries", "runs"), [(0, 1), (3, 4), (None, 4)])
def test_max_retries_n_is_n_plus_one_runs(harness: WorkerHarness, max_retries: int | None, runs: int) -> None:
    """Guarantee 11: 0 means one run; not given means the default, 3."""
    producer = Producer(harness.backend)
    job = producer.enqueue("work", queue=harness.queue, max_retries=max_retries).job

    def fails(job: Job, ctx: JobContext) -> None:
        harness.runs[job.id] += 1
        assert job.max_retries == runs - 1, "after a round trip through the store"
        raise ValueError

    with harness.worker(fails):
        harness.until_state(job.id, JobState.DEAD)
    assert harness.runs[job.id] == runs


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit, Plain])
def test_no_exception_of_any_class_costs_a_thread(harness: WorkerHarness, error: type[BaseException]) -> None:
    """Guarantee 13: ten of each on two threads; two normal jobs still run side by side afterwards."""

    def raises(job: Job, ctx: JobContext) -> None:
        raise error

    side_by_side = threading.Barrier(2)
    worker = harness.worker(raises, concurrency=2)
    worker.handle("fine", lambda job, ctx: side_by_side.wait(SOON) and None)
    jobs = harness.add_many(10, max_retries=1)
    with worker:
        harness.until_finished(*(job.id for job in jobs))
        harness.until_finished(*(job.id for job in harness.add_many(2, type="fine")))
        assert worker.health.stuck == 0
    for job in jobs:
        dead = harness.job(job.id)
        assert dead.state is JobState.DEAD
        assert [error.__name__ in record.kind for record in dead.errors] == [True, True]


def test_recording_a_failure_works_whatever_the_exception_does(harness: WorkerHarness) -> None:
    """Guarantee 14: all of them, on one worker that still works afterwards."""
    worker = harness.worker(concurrency=2, retry_policy=RetryPolicy.fixed(3_600.0))

    def raising(make: Callable[[], BaseException]) -> Callable[[Job, JobContext], None]:
        def handler(job: Job, ctx: JobContext) -> None:
            raise make()

        return handler

    jobs = {}
    for make in HOSTILE:
        worker.handle(name_of(make) + str(id(make)), raising(make))
        jobs[make] = harness.add(type=name_of(make) + str(id(make)))
    worker.handle("work", harness.count_runs)
    with worker:
        for job in jobs.values():
            harness.until_state(job.id, JobState.RETRY_WAIT)
        harness.until_finished(harness.add().id)
    for make, job in jobs.items():
        last = harness.job(job.id).last_error
        assert last is not None
        if isinstance(make, type) and name_of(make) != "Nameless":
            assert name_of(make) in last.kind


async def _never_awaited() -> None: ...


def test_a_plain_function_that_returns_a_coroutine_has_failed(harness: WorkerHarness) -> None:
    """Guarantee 15: nothing ran, and nobody warns of a coroutine that was never awaited."""
    job = harness.add(max_retries=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with harness.worker(lambda job, ctx: _never_awaited()):
            dead = harness.until_state(job.id, JobState.DEAD)
    assert dead.errors[0].kind == "InvalidHandler"


def test_a_function_that_runs_its_coroutine_is_a_handler_like_any_other(harness: WorkerHarness) -> None:
    job = harness.add()
    with harness.worker(lambda job, ctx: asyncio.run(_never_awaited())):
        harness.until_state(job.id, JobState.SUCCEEDED)


def test_error_text_of_any_content_is_recorded(harness: WorkerHarness) -> None:
    """Guarantee 19: with NUL and surrogates; the payload is untouched."""
    payload = bytes(range(256))
    job = harness.add(payload=payload, max_retries=1)

    def fails(job: Job, ctx: JobContext) -> None:
        raise WithNul

    with harness.worker(fails):
        dead = harness.until_state(job.id, JobState.DEAD)
    assert dead.payload == payload
    assert [error.message for error in dead.errors] == ["a\ufffdb\ufffdc"] * 2


def test_an_unknown_type_waits_without_an_attempt_until_somebody_knows_it(harness: WorkerHarness) -> None:
    """Guarantee 26: leased at most once per unknown_type_delay; a worker that knows the type runs it."""
    job = harness.add(type="new", max_retries=0)
    old = harness.worker(harness.count_runs, unknown_type_delay=0.2)
    with old:
        harness.until(lambda: harness.watch.counts["settled.retry"] >= 3)
        waiting = harness.job(job.id)
        assert waiting.attempts in (0, 1)  # 1 while it is leased
        assert [error.kind for error in waiting.errors] == ["UnknownTypeWaiting"]
        times = harness.watch.counts["settled.retry"]
        age = (waiting.due_at - waiting.created_at).total_seconds() if waiting.due_at else 0.2 * times
        assert age >= 0.2 * (times - 1)
    new = harness.worker(unknown_type_delay=0.2)
    new.handle("new", harness.count_runs)
    with old, new:
        done = harness.until_state(job.id, JobState.SUCCEEDED)
    assert (done.attempts, harness.runs[job.id]) == (1, 1)


def test_an_unknown_type_is_dead_after_its_patience_and_starts_afresh_when_requeued(harness: WorkerHarness) -> None:
    """Guarantee 26: for a reason that names the type, and none is lost."""
    job = harness.add(type="gone", max_retries=5)
    with harness.worker(harness.count_runs, unknown_type_delay=0.02, unknown_type_timeout=0.1):
        dead = harness.until_state(job.id, JobState.DEAD)
        assert [error.kind for error in dead.errors] == ["UnknownTypeWaiting", "UnknownJobType"]
        assert "'gone'" in dead.errors[-1].message
        assert dead.attempts == 0
        assert (dead.errors[-1].at - dead.errors[0].at).total_seconds() >= 0.1
        (answer,) = harness.backend.requeue(harness.queue, [job.id])
        assert answer.moved
        again = harness.until_state(job.id, JobState.DEAD)
        assert [error.kind for error in again.errors] == ["UnknownTypeWaiting", "UnknownJobType"] * 2
