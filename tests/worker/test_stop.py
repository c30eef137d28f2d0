"""A stop is bounded, gives back what has not started, records what has ended, and leaves nothing behind."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self

import pytest

from scheduler.errors import ConfigError
from scheduler.jobs import Job
from scheduler.metrics import CountingMetrics
from scheduler.states import JobState
from scheduler.worker import JobContext, Report, Worker
from scheduler.worker.lifecycle import Lifecycle
from scheduler.worker.shutdown import OwnThreads
from worker.harness import SOON, WorkerHarness, WorkerParts

IN_TIME = 3.0
"""Seconds that a stop may last beyond its timeout on a machine that is busy with other things."""


class Running:
    """`worker.run()` on a thread, and what came of it."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.pool = ThreadPoolExecutor(1)
        self.result = self.pool.submit(worker.run)

    def __enter__(self) -> Self:
        end = time.monotonic() + SOON
        while not self.worker.running and not self.result.done():
            assert time.monotonic() < end
            time.sleep(0.001)
        return self

    def __exit__(self, *_: object) -> None:
        self.worker.stop(0.0)  # not request_stop, which would end the next run where this one has ended
        self.pool.shutdown()

    def report(self) -> Report:
        return self.result.result(SOON)


class Held:
    """A handler that stays until it is let go; `heeds`: it also goes when it is cancelled."""

    def __init__(self, *, heeds: bool = False) -> None:
        self.begun = threading.Semaphore(0)
        self.go = threading.Event()
        self.heeds = heeds

    def __call__(self, job: Job, ctx: JobContext) -> None:
        self.begun.release()
        end = time.monotonic() + SOON
        while not self.go.is_set() and time.monotonic() < end:
            if self.heeds:
                ctx.cancelled.wait(0.05)
                ctx.check()
            else:
                self.go.wait(0.05)

    def wait_begun(self, times: int = 1) -> None:
        for _ in range(times):
            assert self.begun.acquire(timeout=SOON)


@pytest.fixture
def held() -> Iterator[Held]:
    held = Held()
    yield held
    held.go.set()


def timed(stop: object) -> float:
    began = time.monotonic()
    assert callable(stop)
    stop()
    return time.monotonic() - began


# ---- what a stop does


@pytest.mark.every_store
def test_handlers_under_way_end_and_are_recorded_and_the_rest_is_given_back(harness: WorkerHarness, held: Held) -> None:
    """Guarantee 24: at once, and without an attempt used."""
    jobs = harness.add_many(6)
    worker = harness.worker(held, concurrency=2, queue_buffer=2)
    with Running(worker) as running:
        held.wait_begun(2)
        harness.until(lambda: worker.health.held == 6)
        worker.request_stop(SOON)
        harness.until(lambda: harness.counts()[JobState.READY] == 4)
        assert not running.result.done()
        held.go.set()
        assert running.report() == Report(settled=2, released=4, abandoned=0)
    assert harness.counts()[JobState.SUCCEEDED] == 2
    back = [job for job in map(harness.job, (job.id for job in jobs)) if job.state is JobState.READY]
    assert [(job.attempts, job.crashes, job.errors) for job in back] == [(0, 0, ())] * 4


def test_jobs_given_back_are_first_in_line_in_their_old_order(harness: WorkerHarness, held: Held) -> None:
    jobs = [job.id for job in harness.add_many(6)]
    worker = harness.worker(held, concurrency=1, queue_buffer=3)
    with Running(worker) as running:
        held.wait_begun()
        harness.until(lambda: worker.health.held == 4)
        worker.request_stop(SOON)
        harness.until(lambda: worker._lifecycle and not worker._lifecycle.inflight._buffered)
        held.go.set()
        running.report()
    assert [lease.job.id for lease in harness.lease(10)] == jobs[1:]


def test_nothing_is_started_after_the_stop_although_the_store_does_not_answer(
    harness: WorkerHarness, held: Held
) -> None:
    harness.add_many(3)
    worker = harness.worker(held, concurrency=1, queue_buffer=2)
    with Running(worker) as running:
        held.wait_begun()
        harness.until(lambda: worker.health.held == 3)
        gate = harness.faults.block("lease", "release", "complete", times=None)
        worker.request_stop(2.0)
        harness.until(lambda: worker.health.stopping and worker._lifecycle and not worker._lifecycle.inflight._buffered)
        held.go.set()
        assert not held.begun.acquire(timeout=0.2)
        gate.release()
        running.report()


def test_a_handler_that_heeds_the_stop_gives_its_job_back(harness: WorkerHarness) -> None:
    held = Held(heeds=True)
    job = harness.add(max_retries=0)
    worker = harness.worker(held, timeout_grace=5.0)
    with Running(worker) as running:
        held.wait_begun()
        worker.request_stop(0.4)  # a quarter of it is left for those that heed
        assert running.report() == Report(settled=0, released=1, abandoned=0)
    again = harness.job(job.id)
    assert (again.state, again.attempts, again.errors) == (JobState.READY, 0, ())


@pytest.mark.every_store
def test_an_endless_handler_is_abandoned_in_time_and_its_job_comes_back_when_its_lease_runs_out(
    harness: WorkerHarness, held: Held
) -> None:
    """Guarantee 24: one that never ends, one that ends soon, three not started."""
    endless = harness.add(type="endless")
    short = harness.add(type="short")
    worker = harness.worker(concurrency=2, queue_buffer=2, lease_duration=1.0, heartbeat_interval=0.2)
    worker.handle("endless", held)
    begun = threading.Event()

    def ends_soon(job: Job, ctx: JobContext) -> None:
        begun.set()
        ctx.cancelled.wait(0.3)

    worker.handle("short", ends_soon)
    worker.handle("work", harness.count_runs)
    with Running(worker) as running:
        held.wait_begun()
        assert begun.wait(SOON)
        waiting = harness.add_many(3)
        harness.until(lambda: worker.health.held == 5 or harness.state(short.id) is JobState.SUCCEEDED)
        took = timed(lambda: worker.stop(1.0))
        assert took < 1.0 + IN_TIME
        report = running.report()
    assert report.abandoned == 1
    assert report.settled + report.released == 4
    assert harness.state(short.id) is JobState.SUCCEEDED
    assert {harness.state(job.id) for job in waiting} <= {JobState.READY, JobState.SUCCEEDED}
    assert harness.state(endless.id) is JobState.LEASED
    recover = harness.backend.wrapped.recover_expired
    harness.until(lambda: recover([harness.queue], 10).ready or harness.state(endless.id) is JobState.READY)
    assert harness.job(endless.id).crashes == 1


def test_the_heartbeat_beats_until_the_end(harness: WorkerHarness, held: Held) -> None:
    job = harness.add()
    worker = harness.worker(held, lease_duration=0.5, heartbeat_interval=0.1)
    with Running(worker) as running:
        held.wait_begun()
        worker.request_stop(SOON)
        renewed = harness.faults.count("renew")
        assert harness.faults.wait_for("renew", calls=renewed + 10)
        held.go.set()
        assert running.report().settled == 1
    assert (harness.state(job.id), harness.job(job.id).crashes) == (JobState.SUCCEEDED, 0)


def test_a_job_snoozed_or_failed_during_the_stop_is_recorded_too(harness: WorkerHarness, held: Held) -> None:
    def fails(job: Job, ctx: JobContext) -> None:
        held(job, ctx)
        raise ValueError("late")

    job = harness.add(max_retries=0)
    worker = harness.worker(fails)
    with Running(worker) as running:
        held.wait_begun()
        worker.request_stop(SOON)
        held.go.set()
        assert running.report().settled == 1
    assert harness.state(job.id) is JobState.DEAD


# ---- who stops, and how


def test_stop_inside_a_handler_only_asks_and_deadlocks_nobody(harness: WorkerHarness) -> None:
    answers: list[bool] = []
    worker = harness.worker(lambda job, ctx: answers.append(worker.stop(0.5)))
    job = harness.add()
    with Running(worker) as running:
        assert running.report() == Report(settled=1, released=0, abandoned=0)
    assert answers == [False]
    assert harness.state(job.id) is JobState.SUCCEEDED


@pytest.mark.parametrize("hook", ["leased", "started", "finished", "settled"])
def test_stop_inside_a_hook_only_asks(harness: WorkerHarness, hook: str) -> None:
    workers: list[Worker] = []
    answers: list[bool] = []
    metrics = CountingMetrics()
    setattr(metrics, hook, lambda *_: answers.append(workers[0].stop(5.0)))
    workers.append(harness.worker(harness.count_runs, metrics=metrics))
    harness.add()
    with Running(workers[0]) as running:
        running.report()
    assert answers
    assert not any(answers)


def test_stop_waits_for_the_end_and_says_so(harness: WorkerHarness, held: Held) -> None:
    harness.add()
    worker = harness.worker(held)
    with Running(worker) as running:
        held.wait_begun()
        threading.Timer(0.05, held.go.set).start()
        assert worker.stop(SOON)
        assert not worker.running
        assert running.report().settled == 1


def test_many_threads_may_stop_and_all_return_at_the_end(harness: WorkerHarness, held: Held) -> None:
    harness.add()
    worker = harness.worker(held)
    with Running(worker), ThreadPoolExecutor(8) as pool:
        held.wait_begun()
        stops = [pool.submit(worker.stop, SOON) for _ in range(8)]
        held.go.set()
        assert all(stop.result(SOON) for stop in stops)


def test_a_second_stop_with_a_shorter_timeout_counts(harness: WorkerHarness, held: Held) -> None:
    harness.add()
    worker = harness.worker(held)
    with Running(worker) as running:
        held.wait_begun()
        worker.request_stop(1_000.0)
        assert timed(lambda: worker.stop(0.1)) < 0.1 + IN_TIME
        assert running.report().abandoned == 1


def test_a_second_stop_with_a_longer_timeout_does_not(harness: WorkerHarness, held: Held) -> None:
    harness.add()
    worker = harness.worker(held)
    with Running(worker) as running:
        held.wait_begun()
        worker.request_stop(0.1)
        began = time.monotonic()
        worker.request_stop(1_000.0)
        assert running.report().abandoned == 1
        assert time.monotonic() - began < 0.1 + IN_TIME


def test_stop_without_any_time_ends_at_once_and_still_gives_back(harness: WorkerHarness, held: Held) -> None:
    harness.add_many(4)
    worker = harness.worker(held, concurrency=1, queue_buffer=3)
    with Running(worker) as running:
        held.wait_begun()
        harness.until(lambda: worker.health.held == 4)
        assert timed(lambda: worker.stop(0.0)) < IN_TIME
        report = running.report()
    assert (report.settled, report.abandoned) == (0, 4 - report.released)
    assert report.released == harness.counts()[JobState.READY] == 3


def test_a_drain_waits_for_the_last_handler_however_long(harness: WorkerHarness, held: Held) -> None:
    harness.add_many(3)
    worker = harness.worker(held, concurrency=1, queue_buffer=2, shutdown_grace=0.0)
    with Running(worker) as running:
        held.wait_begun()
        worker.request_stop(math.inf)
        harness.until(lambda: harness.counts()[JobState.READY] >= 1)
        assert not running.result.done()
        held.go.set()
        report = running.report()
    assert (report.settled, report.abandoned) == (1, 0)


@pytest.mark.parametrize("timeout", [-1.0, float("nan"), math.inf, "5", True])
def test_a_timeout_that_is_none_is_refused_by_name(harness: WorkerHarness, timeout: float) -> None:
    with pytest.raises(ConfigError) as raised:
        harness.worker().stop(timeout)
    assert raised.value.field == "timeout"


# ---- before, after, again


def test_a_stop_asked_for_before_the_run_ends_it_at_once(harness: WorkerHarness) -> None:
    job = harness.add()
    worker = harness.worker(harness.count_runs)
    worker.request_stop()
    assert worker.run().abandoned == 0
    assert harness.state(job.id) in (JobState.READY, JobState.SUCCEEDED)
    with worker:  # the next run is not stopped
        harness.until_finished(job.id)


def test_the_timeout_of_a_stop_before_the_run_is_remembered(harness: WorkerHarness) -> None:
    worker = harness.worker(harness.count_runs)
    worker.request_stop(1_000.0)
    worker.request_stop(0.25)
    worker.request_stop(500.0)
    assert worker._stop_timeout == 0.25
    worker.run()
    assert worker._stop_timeout is None


def test_stop_where_nothing_runs_is_done_and_leaves_the_next_run_alone(harness: WorkerHarness) -> None:
    worker = harness.worker(harness.count_runs)
    assert worker.stop()
    job = harness.add()
    with worker:
        harness.until_finished(job.id)
    assert worker.stop()
    assert worker.stop(0.0)


def test_the_same_worker_can_be_started_and_stopped_many_times(harness: WorkerHarness) -> None:
    worker = harness.worker(harness.count_runs)
    threads = threading.active_count()
    for _ in range(100):
        worker.start()
        assert worker.stop(SOON)
    harness.until(lambda: threading.active_count() <= threads)
    job = harness.add()
    with worker:
        harness.until_finished(job.id)


def test_stops_at_any_moment_lose_and_double_nothing(harness: WorkerHarness) -> None:
    """Started and stopped over and over while jobs come in: each runs exactly once."""
    worker = harness.worker(harness.count_runs, concurrency=4, queue_buffer=2, batch_size=8)
    ids: list[str] = []
    released = 0
    for number in range(60):
        ids += [job.id for job in harness.add_many(20)]
        with Running(worker) as running:
            threading.Event().wait(0.0005 * (number % 13))
            worker.request_stop(SOON)
            report = running.report()
            released += report.released
            assert report.abandoned == 0
        assert harness.counts()[JobState.LEASED] == 0
    with worker:
        harness.until_finished(*ids)
    assert harness.runs == dict.fromkeys(ids, 1)
    assert all(harness.job(id).attempts == 1 for id in ids)


# ---- the with statement


def test_a_block_runs_the_worker_beside_it_and_ends_it(harness: WorkerHarness) -> None:
    job = harness.add()
    with harness.worker(harness.count_runs) as worker:
        assert worker.running
        harness.until_finished(job.id)
    assert not worker.running


def test_an_exception_in_the_block_stops_the_worker_and_comes_through(harness: WorkerHarness) -> None:
    worker = harness.worker(harness.count_runs)
    with pytest.raises(LookupError, match="mine"), worker:
        raise LookupError("mine")
    assert not worker.running


def test_a_block_left_from_a_handler_of_its_own_worker_does_not_wait_for_itself(harness: WorkerHarness) -> None:
    left = threading.Event()
    worker = harness.worker(shutdown_grace=5.0)

    def leaves(job: Job, ctx: JobContext) -> None:
        worker.__exit__(None, None, None)
        left.set()

    worker.handle("work", leaves)
    worker.start()
    harness.add()
    assert left.wait(SOON)
    assert worker.stop(SOON)


# ---- the store is away, or does not answer


@pytest.mark.every_store
@pytest.mark.parametrize("away", ["before", "block"])
def test_a_stop_while_the_store_is_away_is_bounded_and_the_jobs_come_back_later(
    harness: WorkerHarness, held: Held, away: str
) -> None:
    """Guarantees 24 and 29: whether it refuses or does not answer at all."""
    harness.add_many(3)
    worker = harness.worker(held, concurrency=1, queue_buffer=2, lease_duration=0.6, heartbeat_interval=0.2)
    with Running(worker) as running:
        held.wait_begun()
        harness.until(lambda: worker.health.held == 3)
        if away == "before":
            harness.faults.before(times=None)
        else:
            harness.faults.block("lease", "renew", "complete", "release", "promote_due", "recover_expired", times=None)
            harness.faults.wait_for("promote_due", calls=harness.faults.count("promote_due") + 1)
        held.go.set()
        assert timed(lambda: worker.stop(0.5)) < 0.5 + IN_TIME
        report = running.report()
        assert (report.settled, report.released, report.abandoned) == (0, 0, 3)
        harness.faults.clear()
    recover = harness.backend.wrapped.recover_expired
    harness.until(lambda: recover([harness.queue], 10).ready >= 0 and not harness.counts()[JobState.LEASED])


def test_a_store_that_comes_back_during_the_stop_takes_everything(harness: WorkerHarness, held: Held) -> None:
    harness.add_many(3)
    worker = harness.worker(held, concurrency=1, queue_buffer=2)
    with Running(worker) as running:
        held.wait_begun()
        harness.until(lambda: worker.health.held == 3)
        harness.faults.before("complete", "release", times=None)
        worker.request_stop(SOON)
        harness.until(lambda: worker._lifecycle and not worker._lifecycle.inflight._buffered)
        held.go.set()
        assert harness.faults.wait_for("complete", "release", calls=3)
        harness.faults.clear()
        report = running.report()
    assert (report.settled, report.released, report.abandoned) == (1, 2, 0)


def test_jobs_of_a_lease_call_without_an_answer_are_found_and_given_back(harness: WorkerHarness) -> None:
    harness.add_many(5)
    harness.faults.after("lease", times=3)
    worker = harness.worker(harness.count_runs, concurrency=5)
    with Running(worker) as running:
        assert harness.faults.wait_for("lease", calls=1)
        worker.request_stop(SOON)
        report = running.report()
    counts = harness.counts()
    assert counts[JobState.LEASED] == report.abandoned == 0
    assert counts[JobState.READY] + counts[JobState.SUCCEEDED] == 5


def test_a_worker_that_holds_nothing_ends_although_the_store_is_away(harness: WorkerHarness) -> None:
    """What a lease call without an answer may have taken is looked for a few times, not for all of the grace."""
    harness.faults.before(times=None)
    worker = harness.worker(harness.count_runs)
    with Running(worker):
        assert harness.faults.wait_for("lease", calls=1)
        assert timed(lambda: worker.stop(4 * SOON)) < SOON


def test_the_caller_is_never_inside_the_store(harness: WorkerHarness) -> None:
    """run() ends in time though a lease call does not return for long."""
    worker = harness.worker(harness.count_runs)
    gate = harness.faults.block("lease")
    with Running(worker) as running:
        assert gate.entered.wait(SOON)
        began = time.monotonic()
        worker.request_stop(0.3)
        running.report()
        assert time.monotonic() - began < 0.3 + IN_TIME
        gate.release()


def test_interrupted_handlers_end_with_the_stop(harness: WorkerHarness) -> None:
    """interrupt=True: also one that never looks."""
    begun = threading.Event()

    def spins(job: Job, ctx: JobContext) -> None:
        begun.set()
        while True:
            pass

    job = harness.add()
    worker = harness.worker(spins, interrupt=True)
    with Running(worker) as running:
        assert begun.wait(SOON)
        worker.request_stop(0.4)
        assert running.report() == Report(settled=0, released=1, abandoned=0)
    assert harness.job(job.id).attempts == 0


def test_the_end_of_the_pump_is_noticed_although_its_thread_has_not_ended_yet(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the stop would look once more, a second later."""
    parts = WorkerParts(harness)
    lifecycle = Lifecycle(parts.run, parts.runner, OwnThreads())
    lifecycle.shutdown.request(0.0)
    lifecycle._pumping.stop()
    heard: Future[bool] = Future()
    monkeypatch.setattr(parts.run.woken, "set", lambda: heard.set_result(lifecycle._is_pumping))
    assert not lifecycle._is_pumping
    lifecycle._pumping.start()
    assert heard.result(SOON) is False
    assert lifecycle._pumping.join(SOON)
