"""No half worker: what no repeat heals ends the worker, in order, and says why."""

from __future__ import annotations

import threading

import pytest

from scheduler.errors import BackendClosed, BackendUnavailable, NotSupported, SchemaMismatch, WorkerCrashed
from scheduler.states import JobState
from scheduler.testing import faulty_backend
from scheduler.worker import Worker, maintenance
from worker.harness import WorkerHarness
from worker.test_stop import Held, Running

ERRORS = [BackendClosed, SchemaMismatch, NotSupported, ZeroDivisionError, SystemExit, KeyboardInterrupt, MemoryError]
METHODS = ["lease", "complete", "retry", "bury", "renew", "promote_due", "recover_expired", "trim", "wait"]
SHORT = {"lease_duration": 0.6, "heartbeat_interval": 0.1, "recover_interval": 0.1}


@pytest.fixture
def held() -> Held:
    return Held()


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
@pytest.mark.parametrize("method", METHODS)
def test_any_contract_method_that_raises_what_will_not_pass_ends_the_worker(
    harness: WorkerHarness,
    method: str,
    error: type[BaseException],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if method == "wait" and "wait" not in harness.faults._methods:
        pytest.skip("the store has no wake-ups")
    worker = harness.worker(**SHORT)
    worker.handle("work", lambda job, ctx: None)
    worker.handle("dies", lambda job, ctx: 1 / 0)
    go = threading.Event()
    worker.handle("stays", lambda job, ctx: go.wait(5.0) if method == "renew" else None)
    harness.add(type="stays")
    harness.add_many(3)
    harness.add_many(3, type="dies", max_retries=1)
    harness.faults.before(method, times=1, error=lambda: error("the reason"))
    if method == "trim":
        monkeypatch.setattr(maintenance, "_TRIM_EVERY", 0.0)
    with Running(worker) as running:
        harness.until(lambda: not worker.running or worker.health.stopping)
        go.set()
        with pytest.raises(WorkerCrashed) as raised:
            running.report()
    assert type(raised.value.__cause__) is error
    assert error.__name__ in str(raised.value)
    assert raised.value.stuck == 0
    assert "The worker stops" in caplog.text
    assert not worker.running


def test_jobs_are_recorded_and_given_back_before_it_ends(harness: WorkerHarness, held: Held) -> None:
    jobs = harness.add_many(4)
    worker = harness.worker(held, concurrency=2, queue_buffer=1)
    with Running(worker) as running:
        held.wait_begun(2)
        harness.until(lambda: worker.health.held == 4)
        harness.faults.before("promote_due", error=ZeroDivisionError)
        harness.until(
            lambda: harness.counts()[JobState.READY] == 2
        )  # before: a thread that is free may still begin one
        held.go.set()
        with pytest.raises(WorkerCrashed):
            running.report()
    assert harness.counts()[JobState.SUCCEEDED] == 2
    assert harness.counts()[JobState.READY] == 2
    assert all(harness.job(job.id).crashes == 0 for job in jobs)


def test_a_heartbeat_that_fails_of_a_bug_goes_on_renewing_until_the_end(harness: WorkerHarness, held: Held) -> None:
    job = harness.add()
    worker = harness.worker(held, **SHORT)
    with Running(worker) as running:
        held.wait_begun()
        harness.faults.before("renew", error=ZeroDivisionError)
        harness.until(lambda: worker.health.stopping)
        renewed = harness.faults.count("renew")
        assert harness.faults.wait_for("renew", calls=renewed + 5)
        held.go.set()
        with pytest.raises(WorkerCrashed):
            running.report()
    assert harness.state(job.id) is JobState.SUCCEEDED


def test_where_nothing_can_be_recorded_any_more_handlers_are_cancelled_soon(harness: WorkerHarness) -> None:
    """Of a backend that the program closed under the worker."""
    held = Held(heeds=True)
    harness.add()
    worker = harness.worker(held, shutdown_grace=1_000.0, timeout_grace=0.2)
    with Running(worker) as running:
        held.wait_begun()
        harness.backend.wrapped.close()
        with pytest.raises(WorkerCrashed) as raised:
            running.report()
    assert isinstance(raised.value.__cause__, BackendClosed)


def test_the_first_error_is_the_one_that_is_raised(harness: WorkerHarness) -> None:
    worker = harness.worker(harness.count_runs)
    harness.faults.before("promote_due", error=ZeroDivisionError)
    harness.faults.before("lease", nth=3, error=lambda: OverflowError("later"))
    with Running(worker) as running, pytest.raises(WorkerCrashed) as raised:
        running.report()
    assert isinstance(raised.value.__cause__, ZeroDivisionError | OverflowError)


def _kill(harness: WorkerHarness, worker: Worker, error: Exception | None = None) -> None:
    harness.faults.before("lease", error=ZeroDivisionError)
    harness.until(lambda: not worker.running)
    if error is not None:
        raise error


def test_a_block_raises_what_its_worker_died_of(harness: WorkerHarness) -> None:
    worker = harness.worker(harness.count_runs)
    with pytest.raises(WorkerCrashed, match="ZeroDivisionError"), worker:
        _kill(harness, worker)
    with worker:  # and may run again
        harness.until_finished(harness.add().id)


def test_an_exception_of_the_block_is_not_hidden_by_the_workers(harness: WorkerHarness) -> None:
    worker = harness.worker(harness.count_runs)
    with pytest.raises(LookupError), worker:
        _kill(harness, worker, LookupError())
    with worker:
        harness.until_finished(harness.add().id)


def test_a_closed_backend_is_refused_at_the_start_and_nothing_is_left_behind(harness: WorkerHarness) -> None:
    worker = harness.worker(harness.count_runs)
    harness.backend.wrapped.close()
    for _ in range(2):
        with pytest.raises((BackendClosed, WorkerCrashed)):
            worker.run()
        assert not worker.running
    with pytest.raises((BackendClosed, WorkerCrashed)), worker:
        harness.until(lambda: not worker.running)
    # A failed run leaves no mark on this thread: its stop would else not wait.
    assert not worker._own.entered


def test_a_waiter_that_fails_when_it_is_closed_does_not_spoil_the_end(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "wait" not in harness.faults._methods:
        pytest.skip("the store has no wake-ups")

    closes = faulty_backend.FaultyWaiter.close
    waiters = []

    def close_and_fail(self: faulty_backend.FaultyWaiter) -> None:
        waiters.append(self)
        closes(self)
        raise BackendUnavailable("gone")

    monkeypatch.setattr(faulty_backend.FaultyWaiter, "close", close_and_fail)
    job = harness.add()
    with harness.worker(harness.count_runs):
        harness.until_finished(job.id)
    assert waiters


def test_no_more_threads_is_an_orderly_end(harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system refuses a thread: at the start, or when the first job wants one."""
    starts = threading.Thread.start
    for refused in ("scheduler-recover", "scheduler-pump", "scheduler-job_0"):

        def start(self: threading.Thread, refused: str = refused) -> None:
            if self.name == refused:
                raise RuntimeError("can't start new thread")
            starts(self)

        job = harness.add()
        worker = harness.worker(harness.count_runs)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", start)
            with pytest.raises(WorkerCrashed) as raised:
                worker.run()
            assert isinstance(raised.value.__cause__, RuntimeError)
        assert harness.state(job.id) is JobState.READY
        assert harness.job(job.id).attempts == 0
        with worker:
            harness.until_finished(job.id)


def test_no_thread_for_a_background_run_is_raised_by_start(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = harness.worker(harness.count_runs)

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            worker.start()
    assert not worker.running
    with worker:
        harness.until_finished(harness.add().id)
