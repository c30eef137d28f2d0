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
from worker.hostile import HOSTILE, Plain, WithNul, name_of
from worker.stand import SOON, Stand
from worker.test_runner import Broken

pytestmark = pytest.mark.every_store


@pytest.mark.parametrize("answer", [ZeroDivisionError(), SystemExit(), float("nan"), -5.0, 10.0**300, "soon"])
def test_a_faulty_policy_leads_to_retry_wait_with_a_sane_delay(stand: Stand, answer: object) -> None:
    """Guarantee 10: it never loses the job."""
    job = stand.add()
    with stand.worker(lambda job, ctx: 1 / 0, retry_policy=Broken(answer)):
        waiting = stand.until_state(job.id, JobState.RETRY_WAIT)
    assert waiting.due_at is not None
    assert 0.0 < (waiting.due_at - waiting.created_at).total_seconds() < LONGEST_DELAY + 3_600.0


@pytest.mark.parametrize(("max_retries", "runs"), [(0, 1), (3, 4), (None, 4)])
def test_max_retries_n_is_n_plus_one_runs(stand: Stand, max_retries: int | None, runs: int) -> None:
    """Guarantee 11: 0 means one run; not given means the default, 3."""
    producer = Producer(stand.backend)
    job = producer.enqueue("work", queue=stand.queue, max_retries=max_retries).job

    def fails(job: Job, ctx: JobContext) -> None:
        stand.runs[job.id] += 1
        assert job.max_retries == runs - 1, "after a round trip through the store"
        raise ValueError

    with stand.worker(fails):
        stand.until_state(job.id, JobState.DEAD)
    assert stand.runs[job.id] == runs


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit, Plain])
def test_no_exception_of_any_class_costs_a_thread(stand: Stand, error: type[BaseException]) -> None:
    """Guarantee 13: ten of each on two threads; two normal jobs still run side by side afterwards."""

    def raises(job: Job, ctx: JobContext) -> None:
        raise error

    side_by_side = threading.Barrier(2)
    worker = stand.worker(raises, concurrency=2)
    worker.handle("fine", lambda job, ctx: side_by_side.wait(SOON) and None)
    jobs = stand.add_many(10, max_retries=1)
    with worker:
        stand.until_finished(*(job.id for job in jobs))
        stand.until_finished(*(job.id for job in stand.add_many(2, type="fine")))
        assert worker.health.stuck == 0
    for job in jobs:
        dead = stand.job(job.id)
        assert dead.state is JobState.DEAD
        assert [error.__name__ in record.kind for record in dead.errors] == [True, True]


def test_recording_a_failure_works_whatever_the_exception_does(stand: Stand) -> None:
    """Guarantee 14: all of them, on one worker that still works afterwards."""
    worker = stand.worker(concurrency=2, retry_policy=RetryPolicy.fixed(3_600.0))

    def raising(make: Callable[[], BaseException]) -> Callable[[Job, JobContext], None]:
        def handler(job: Job, ctx: JobContext) -> None:
            raise make()

        return handler

    jobs = {}
    for make in HOSTILE:
        worker.handle(name_of(make) + str(id(make)), raising(make))
        jobs[make] = stand.add(type=name_of(make) + str(id(make)))
    worker.handle("work", stand.count_runs)
    with worker:
        for job in jobs.values():
            stand.until_state(job.id, JobState.RETRY_WAIT)
        stand.until_finished(stand.add().id)
    for make, job in jobs.items():
        last = stand.job(job.id).last_error
        assert last is not None
        if isinstance(make, type) and name_of(make) != "Nameless":
            assert name_of(make) in last.kind


async def _never_awaited() -> None: ...


def test_a_plain_function_that_returns_a_coroutine_has_failed(stand: Stand) -> None:
    """Guarantee 15: nothing ran, and nobody warns of a coroutine that was never awaited."""
    job = stand.add(max_retries=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with stand.worker(lambda job, ctx: _never_awaited()):
            dead = stand.until_state(job.id, JobState.DEAD)
    assert dead.errors[0].kind == "InvalidHandler"


def test_a_function_that_runs_its_coroutine_is_a_handler_like_any_other(stand: Stand) -> None:
    job = stand.add()
    with stand.worker(lambda job, ctx: asyncio.run(_never_awaited())):
        stand.until_state(job.id, JobState.SUCCEEDED)


def test_error_text_of_any_content_is_recorded(stand: Stand) -> None:
    """Guarantee 19: with NUL and surrogates; the payload is untouched."""
    payload = bytes(range(256))
    job = stand.add(payload=payload, max_retries=1)

    def fails(job: Job, ctx: JobContext) -> None:
        raise WithNul

    with stand.worker(fails):
        dead = stand.until_state(job.id, JobState.DEAD)
    assert dead.payload == payload
    assert [error.message for error in dead.errors] == ["a\ufffdb\ufffdc"] * 2


def test_an_unknown_type_waits_without_an_attempt_until_somebody_knows_it(stand: Stand) -> None:
    """Guarantee 26: leased at most once per unknown_type_delay; a worker that knows the type runs it."""
    job = stand.add(type="new", max_retries=0)
    old = stand.worker(stand.count_runs, unknown_type_delay=0.2)
    with old:
        stand.until(lambda: stand.watch.counts["settled.retry"] >= 3)
        waiting = stand.job(job.id)
        assert waiting.attempts in (0, 1)  # 1 while it is leased
        assert [error.kind for error in waiting.errors] == ["UnknownTypeWaiting"]
        times = stand.watch.counts["settled.retry"]
        age = (waiting.due_at - waiting.created_at).total_seconds() if waiting.due_at else 0.2 * times
        assert age >= 0.2 * (times - 1)
    new = stand.worker(unknown_type_delay=0.2)
    new.handle("new", stand.count_runs)
    with old, new:
        done = stand.until_state(job.id, JobState.SUCCEEDED)
    assert (done.attempts, stand.runs[job.id]) == (1, 1)


def test_an_unknown_type_is_dead_after_its_patience_and_starts_afresh_when_requeued(stand: Stand) -> None:
    """Guarantee 26: for a reason that names the type, and none is lost."""
    job = stand.add(type="gone", max_retries=5)
    with stand.worker(stand.count_runs, unknown_type_delay=0.02, unknown_type_patience=0.1):
        dead = stand.until_state(job.id, JobState.DEAD)
        assert [error.kind for error in dead.errors] == ["UnknownTypeWaiting", "UnknownJobType"]
        assert "'gone'" in dead.errors[-1].message
        assert dead.attempts == 0
        assert (dead.errors[-1].at - dead.errors[0].at).total_seconds() >= 0.1
        (answer,) = stand.backend.requeue(stand.queue, [job.id])
        assert answer.moved
        again = stand.until_state(job.id, JobState.DEAD)
        assert [error.kind for error in again.errors] == ["UnknownTypeWaiting", "UnknownJobType"] * 2
