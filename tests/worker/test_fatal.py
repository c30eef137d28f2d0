"""No half worker: what no repeat heals ends the worker, in order, and says why."""

from __future__ import annotations

import threading

import pytest

from scheduler.errors import BackendClosed, BackendUnavailable, NotSupported, SchemaMismatch, WorkerCrashed
from scheduler.states import JobState
from scheduler.testing import faulty_backend
from scheduler.worker import Worker
from scheduler.worker import recoverer as recoverer_room
from worker.stand import Stand
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
    stand: Stand,
    method: str,
    error: type[BaseException],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if method == "wait" and "wait" not in stand.faults._methods:
        pytest.skip("the store has no wake-ups")
    worker = stand.worker(**SHORT)
    worker.handle("work", lambda job, ctx: None)
    worker.handle("dies", lambda job, ctx: 1 / 0)
    go = threading.Event()
    worker.handle("stays", lambda job, ctx: go.wait(5.0) if method == "renew" else None)
    stand.add(type="stays")
    stand.add_many(3)
    stand.add_many(3, type="dies", max_retries=1)
    stand.faults.before(method, times=1, error=lambda: error("the reason"))
    if method == "trim":
        monkeypatch.setattr(recoverer_room, "_TRIM_EVERY", 0.0)
    with Running(worker) as running:
        stand.until(lambda: not worker.running or worker.health.stopping)
        go.set()
        with pytest.raises(WorkerCrashed) as raised:
            running.report()
    assert type(raised.value.__cause__) is error
    assert error.__name__ in str(raised.value)
    assert raised.value.stuck == 0
    assert "The worker stops" in caplog.text
    assert not worker.running


def test_jobs_are_recorded_and_given_back_before_it_ends(stand: Stand, held: Held) -> None:
    jobs = stand.add_many(4)
    worker = stand.worker(held, concurrency=2, queue_buffer=1)
    with Running(worker) as running:
        held.wait_begun(2)
        stand.until(lambda: worker.health.held == 4)
        stand.faults.before("promote_due", error=ZeroDivisionError)
        stand.until(lambda: stand.counts()[JobState.READY] == 2)  # before: a thread that is free may still begin one
        held.go.set()
        with pytest.raises(WorkerCrashed):
            running.report()
    assert stand.counts()[JobState.SUCCEEDED] == 2
    assert stand.counts()[JobState.READY] == 2
    assert all(stand.job(job.id).crashes == 0 for job in jobs)


def test_a_heartbeat_that_fails_of_a_bug_goes_on_renewing_until_the_end(stand: Stand, held: Held) -> None:
    job = stand.add()
    worker = stand.worker(held, **SHORT)
    with Running(worker) as running:
        held.wait_begun()
        stand.faults.before("renew", error=ZeroDivisionError)
        stand.until(lambda: worker.health.stopping)
        renewed = stand.faults.count("renew")
        assert stand.faults.wait_for("renew", calls=renewed + 5)
        held.go.set()
        with pytest.raises(WorkerCrashed):
            running.report()
    assert stand.state(job.id) is JobState.SUCCEEDED


def test_where_nothing_can_be_recorded_any_more_handlers_are_told_soon(stand: Stand) -> None:
    """Of a backend that the program closed under the worker."""
    held = Held(heeds=True)
    stand.add()
    worker = stand.worker(held, shutdown_grace=1_000.0, timeout_grace=0.2)
    with Running(worker) as running:
        held.wait_begun()
        stand.backend.wrapped.close()
        with pytest.raises(WorkerCrashed) as raised:
            running.report()
    assert isinstance(raised.value.__cause__, BackendClosed)


def test_the_first_error_is_the_one_that_is_raised(stand: Stand) -> None:
    worker = stand.worker(stand.count_runs)
    stand.faults.before("promote_due", error=ZeroDivisionError)
    stand.faults.before("lease", nth=3, error=lambda: OverflowError("later"))
    with Running(worker) as running, pytest.raises(WorkerCrashed) as raised:
        running.report()
    assert isinstance(raised.value.__cause__, ZeroDivisionError | OverflowError)


def _kill(stand: Stand, worker: Worker, error: Exception | None = None) -> None:
    stand.faults.before("lease", error=ZeroDivisionError)
    stand.until(lambda: not worker.running)
    if error is not None:
        raise error


def test_a_block_raises_what_its_worker_died_of(stand: Stand) -> None:
    worker = stand.worker(stand.count_runs)
    with pytest.raises(WorkerCrashed, match="ZeroDivisionError"), worker:
        _kill(stand, worker)
    with worker:  # and may run again
        stand.until_finished(stand.add().id)


def test_an_exception_of_the_block_is_not_hidden_by_the_workers(stand: Stand) -> None:
    worker = stand.worker(stand.count_runs)
    with pytest.raises(LookupError), worker:
        _kill(stand, worker, LookupError())
    with worker:
        stand.until_finished(stand.add().id)


def test_a_closed_backend_is_refused_at_the_start_and_nothing_is_left_behind(stand: Stand) -> None:
    worker = stand.worker(stand.count_runs)
    stand.backend.wrapped.close()
    for _ in range(2):
        with pytest.raises((BackendClosed, WorkerCrashed)):
            worker.run()
        assert not worker.running
    with pytest.raises((BackendClosed, WorkerCrashed)), worker:
        stand.until(lambda: not worker.running)
    # A failed run leaves no mark on this thread: its stop would else not wait.
    assert not getattr(worker._own, "entered", False)


def test_a_waiter_that_fails_when_it_is_closed_does_not_spoil_the_end(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "wait" not in stand.faults._methods:
        pytest.skip("the store has no wake-ups")

    closes = faulty_backend.FaultyWaiter.close
    waiters = []

    def close_and_fail(self: faulty_backend.FaultyWaiter) -> None:
        waiters.append(self)
        closes(self)
        raise BackendUnavailable("gone")

    monkeypatch.setattr(faulty_backend.FaultyWaiter, "close", close_and_fail)
    job = stand.add()
    with stand.worker(stand.count_runs):
        stand.until_finished(job.id)
    assert waiters


def test_no_more_threads_is_an_orderly_end(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system refuses a thread: at the start, or when the first job wants one."""
    starts = threading.Thread.start
    for refused in ("scheduler-recover", "scheduler-pump", "scheduler-job_0"):

        def start(self: threading.Thread, refused: str = refused) -> None:
            if self.name == refused:
                raise RuntimeError("can't start new thread")
            starts(self)

        job = stand.add()
        worker = stand.worker(stand.count_runs)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", start)
            with pytest.raises(WorkerCrashed) as raised:
                worker.run()
            assert isinstance(raised.value.__cause__, RuntimeError)
        assert stand.state(job.id) is JobState.READY
        assert stand.job(job.id).attempts == 0
        with worker:
            stand.until_finished(job.id)


def test_no_thread_for_a_background_run_is_raised_by_start(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = stand.worker(stand.count_runs)

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            worker.start()
    assert not worker.running
    with worker:
        stand.until_finished(stand.add().id)
