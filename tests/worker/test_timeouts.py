"""Past its timeout a job is no longer this worker's, whatever its handler does (guarantees 4 and 31)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from scheduler.errors import WorkerCrashed
from scheduler.jobs import Job
from scheduler.states import JobState
from scheduler.worker import JobContext, Worker
from worker.harness import SOON, WorkerHarness
from worker.test_stop import IN_TIME, Running


class Hung:
    """A handler that does not return, and heeds nothing, until the test is over."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.begun = threading.Semaphore(0)

    def __call__(self, job: Job, ctx: JobContext) -> str:
        self.begun.release()
        self.go.wait(SOON)
        return "too late"


@pytest.fixture
def hung() -> Iterator[Hung]:
    hung = Hung()
    yield hung
    hung.go.set()


def hanging(harness: WorkerHarness, hung: Hung, **changes: object) -> Worker:
    """Its handlers are given up a moment after their timeout."""
    return harness.worker(hung, **{"timeout_grace": 0.05, "lease_duration": 0.6, "heartbeat_interval": 0.1, **changes})


def test_a_handler_that_returns_within_the_grace_has_succeeded(harness: WorkerHarness) -> None:
    job = harness.add(timeout=0.05)

    def late(job: Job, ctx: JobContext) -> None:
        assert ctx.cancelled.wait(SOON)
        assert ctx.remaining() <= 0.0

    with harness.worker(late, timeout_grace=SOON):
        harness.until_finished(job.id)
    assert harness.state(job.id) is JobState.SUCCEEDED


def test_a_handler_that_heeds_its_timeout_has_failed_an_attempt_and_costs_no_thread(harness: WorkerHarness) -> None:
    job = harness.add(timeout=0.05, max_retries=1)
    worker = harness.worker(timeout_grace=SOON, concurrency=1)

    def heeds(job: Job, ctx: JobContext) -> None:
        harness.runs[job.id] += 1
        ctx.cancelled.wait(SOON)
        ctx.check()

    worker.handle("work", heeds)
    with worker:
        harness.until_finished(job.id)
        assert worker.health.stuck == 0
    dead = harness.job(job.id)
    assert (dead.state, harness.runs[job.id]) == (JobState.DEAD, 2)
    assert [error.kind for error in dead.errors] == ["JobTimeout"] * 2


def test_a_loop_that_checks_ends_at_its_deadline_even_if_nobody_cancelled_it(harness: WorkerHarness) -> None:
    job = harness.add(timeout=0.05, max_retries=0)

    def checks(job: Job, ctx: JobContext) -> None:
        while True:
            ctx.check()

    with harness.worker(checks, timeout_grace=SOON):
        harness.until_finished(job.id)
    assert harness.job(job.id).errors[0].kind == "JobTimeout"


def test_interrupt_ends_a_loop_that_never_checks(harness: WorkerHarness) -> None:
    jobs = harness.add_many(3, timeout=0.05, max_retries=0)

    def spins(job: Job, ctx: JobContext) -> None:
        while True:
            pass

    worker = harness.worker(spins, interrupt=True, concurrency=1, timeout_grace=SOON)
    worker.handle("fine", harness.count_runs)
    with worker:
        harness.until_finished(*(job.id for job in jobs))
        assert worker.health.stuck == 0
        harness.until_finished(harness.add(type="fine").id)
    assert [harness.job(job.id).errors[0].kind for job in jobs] == ["JobTimeout"] * 3


@pytest.mark.every_store
def test_a_hung_handler_loses_its_job_its_attempt_and_its_thread(harness: WorkerHarness, hung: Hung) -> None:
    """Guarantee 4."""
    job = harness.add(timeout=0.1, max_retries=0)
    worker = hanging(harness, hung, max_stuck=None)
    with worker:
        assert hung.begun.acquire(timeout=SOON)
        dead = harness.until_state(job.id, JobState.DEAD)
        assert (dead.attempts, dead.crashes) == (1, 0)
        (error,) = dead.errors
        assert error.kind == "JobTimeout"
        assert "hung.go" in error.traceback or "self.go.wait" in error.traceback, "where it hangs is recorded"
        harness.until(lambda: harness.watch.counts["stuck"] == 1)
        assert worker.health.stuck == 1
        hung.go.set()
        harness.until(lambda: worker.health.stuck == 0 and harness.watch.counts["stuck"] == 0)
    again = harness.job(job.id)
    assert (again.state, again.result) == (JobState.DEAD, None), "the late outcome is dropped"
    assert harness.watch.counts["finished.complete"] == 1


@pytest.mark.every_store
def test_its_job_is_taken_by_another_worker_while_it_still_hangs(harness: WorkerHarness, hung: Hung) -> None:
    job = harness.add(timeout=0.1, max_retries=3)
    first = hanging(harness, hung, concurrency=1, max_stuck=None)
    with first:
        assert hung.begun.acquire(timeout=SOON)
        harness.until(lambda: first.health.stuck == 1)
        with harness.worker(harness.count_runs):
            done = harness.until_state(job.id, JobState.SUCCEEDED)
        assert (done.attempts, harness.runs[job.id]) == (2, 1)


@pytest.mark.every_store
def test_where_the_timeout_cannot_be_recorded_the_job_comes_back_when_its_lease_runs_out(
    harness: WorkerHarness, hung: Hung
) -> None:
    """Guarantee 4: renewal has ended."""
    job = harness.add(timeout=0.1, max_retries=3)
    first = hanging(harness, hung, concurrency=1, max_stuck=None)
    harness.faults.before("retry", times=None)
    with first:
        assert hung.begun.acquire(timeout=SOON)
        harness.until(lambda: first.health.stuck == 1)
        recover = harness.backend.wrapped.recover_expired
        harness.until(lambda: recover([harness.queue], 10).ready or harness.job(job.id).crashes)
        harness.faults.clear()
        assert harness.job(job.id).crashes == 1
        harness.until(lambda: first.health.held == 0)
        assert harness.state(job.id) in (JobState.READY, JobState.RETRY_WAIT)


def test_jobs_that_wait_behind_a_hung_handler_are_given_to_others(harness: WorkerHarness, hung: Hung) -> None:
    hangs = harness.add(timeout=0.1)
    waiting = harness.add_many(3, type="fine")
    first = hanging(harness, hung, concurrency=1, queue_buffer=3, max_stuck=None)
    first.handle("fine", harness.count_runs)
    with first:
        assert hung.begun.acquire(timeout=SOON)
        harness.until(lambda: harness.counts()[JobState.READY] >= 3)
        second = harness.worker()
        second.handle("fine", harness.count_runs)
        with second:
            harness.until_finished(*(job.id for job in waiting))
    assert harness.state(hangs.id) is not JobState.SUCCEEDED
    assert all(harness.job(job.id).attempts == 1 for job in waiting)


def test_at_max_stuck_the_run_ends_and_says_how_many(harness: WorkerHarness, hung: Hung) -> None:
    jobs = harness.add_many(2, timeout=0.1)
    worker = hanging(harness, hung, concurrency=3, max_stuck=2)
    with Running(worker) as running, pytest.raises(WorkerCrashed, match="2 handler threads are stuck") as raised:
        running.report()
    assert raised.value.stuck == 2
    assert not worker.running
    assert {harness.state(job.id) for job in jobs} <= {JobState.RETRY_WAIT, JobState.READY}


@pytest.mark.every_store
def test_with_every_thread_hung_the_worker_is_alive_leases_nothing_and_stops_in_time(
    harness: WorkerHarness, hung: Hung
) -> None:
    """Guarantee 31: concurrency 4, max_stuck=None, 4 handlers blocked for ever."""
    jobs = harness.add_many(4, timeout=0.1)
    worker = hanging(harness, hung, concurrency=4, max_stuck=None)
    with Running(worker) as running:
        for _ in range(4):
            assert hung.begun.acquire(timeout=SOON)
        harness.until(lambda: worker.health.stuck == 4)
        harness.until(lambda: worker.health.held == 0)
        assert (worker.health.running, worker.health.leasing) == (True, False)
        harness.until(lambda: harness.watch.counts["stuck"] == 4)  # reported a moment later
        more = harness.add()
        leased = harness.faults.count("lease")
        with harness.worker(harness.count_runs, poll_interval=0.01):
            harness.until_finished(more.id, *(job.id for job in jobs))
        asked = [call for call in harness.faults.calls if call.method == "lease"][leased:]
        assert worker.config.worker_id not in {call.kwargs["worker_id"] for call in asked}
        began = time.monotonic()
        assert worker.stop(1.0)
        assert time.monotonic() - began < 1.0 + IN_TIME
        assert running.report().abandoned == 0
    assert harness.runs == dict.fromkeys([more.id, *(job.id for job in jobs)], 1)


def test_a_worker_whose_threads_come_back_goes_on(harness: WorkerHarness, hung: Hung) -> None:
    harness.add(timeout=0.1)
    worker = hanging(harness, hung, concurrency=1, max_stuck=None)
    worker.handle("fine", harness.count_runs)
    with worker:
        harness.until(lambda: worker.health.stuck == 1)
        fine = harness.add(type="fine")
        hung.go.set()
        harness.until_finished(fine.id)


@pytest.mark.every_store
def test_a_handler_may_last_longer_than_its_lease(harness: WorkerHarness) -> None:
    """Guarantee 5: renewal covers it."""
    job = harness.add(timeout=SOON)
    other = harness.worker(harness.count_runs, lease_duration=0.3, heartbeat_interval=0.05, recover_interval=0.05)
    worker = harness.worker(
        lambda job, ctx: ctx.cancelled.wait(1.0), lease_duration=0.3, heartbeat_interval=0.05, recover_interval=0.05
    )
    with worker:
        harness.until(lambda: harness.state(job.id) is JobState.LEASED)
        with other:
            done = harness.until_state(job.id, JobState.SUCCEEDED)
    assert (done.attempts, done.crashes, harness.runs[job.id]) == (1, 0, 0)
