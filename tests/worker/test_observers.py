"""What metrics hooks and log handlers raise changes nothing for a job or a worker (guarantee 16)."""

from __future__ import annotations

import logging
import threading

import pytest

from scheduler.jobs import Job
from scheduler.metrics import HOOKS, Metrics
from scheduler.states import JobState
from scheduler.worker import JobContext, Report, Worker
from worker.harness import SOON, WorkerHarness
from worker.hostile import Plain
from worker.test_stop import Running

RAISED = [RuntimeError, Plain, SystemExit, KeyboardInterrupt, GeneratorExit]


def raising_metrics(error: type[BaseException], called: set[str]) -> Metrics:
    """Every hook of it raises *error*."""
    metrics = Metrics()

    def hook(name: str) -> object:
        def call(*_: object) -> None:
            called.add(name)
            raise error

        return call

    for name in HOOKS:
        setattr(metrics, name, hook(name))
    return metrics


class RaisingHandler(logging.Handler):
    def __init__(self, error: type[BaseException]) -> None:
        super().__init__()
        self.error = error
        self.called = threading.Event()

    def handle(self, record: logging.LogRecord) -> bool:
        self.called.set()
        raise self.error


@pytest.fixture(params=RAISED, ids=lambda error: error.__name__)
def error(request: pytest.FixtureRequest) -> type[BaseException]:
    return request.param  # type: ignore[no-any-return]  # one of RAISED


@pytest.fixture
def logger(error: type[BaseException]) -> logging.Logger:
    logger = logging.Logger("raises")  # noqa: LOG001 - known to nobody else
    logger.addHandler(RaisingHandler(error))
    return logger


def twenty_jobs(harness: WorkerHarness) -> dict[str, list[str]]:
    return {
        "work": [job.id for job in harness.add_many(10)],
        "fails": [job.id for job in harness.add_many(5, type="fails", max_retries=1)],
        "discards": [job.id for job in harness.add_many(5, type="unknown")],
    }


def with_handlers(worker: Worker, harness: WorkerHarness) -> Worker:
    def fails(job: Job, ctx: JobContext) -> None:
        harness.runs[job.id] += 1
        raise ValueError

    worker.handle("work", harness.count_runs)
    worker.handle("fails", fails)
    return worker


@pytest.mark.every_store
def test_metrics_that_raise_anything_change_nothing(harness: WorkerHarness, error: type[BaseException]) -> None:
    called: set[str] = set()
    worker = with_handlers(
        Worker(harness.backend, harness.config(unknown_type_delay=3_600.0), metrics=raising_metrics(error, called)),
        harness,
    )
    jobs = twenty_jobs(harness)
    harness.faults.before("lease", "renew", times=2)
    with Running(worker) as running:
        harness.until_finished(*jobs["work"], *jobs["fails"])
        harness.until(lambda: harness.counts()[JobState.RETRY_WAIT] == 5)
        worker.request_stop(SOON)
        assert running.report() == Report(settled=10 + 2 * 5 + 5, released=0, abandoned=0)
    assert {harness.state(id) for id in jobs["work"]} == {JobState.SUCCEEDED}
    assert {harness.state(id) for id in jobs["fails"]} == {JobState.DEAD}
    assert harness.runs == dict.fromkeys(jobs["work"], 1) | dict.fromkeys(jobs["fails"], 2)
    assert {"leased", "started", "finished", "settled", "call_failed"} <= called


@pytest.mark.every_store
def test_log_handlers_that_raise_anything_change_nothing(
    harness: WorkerHarness, error: type[BaseException], logger: logging.Logger
) -> None:
    worker = with_handlers(
        Worker(harness.backend, harness.config(unknown_type_delay=3_600.0), metrics=harness.watch, logger=logger),
        harness,
    )
    jobs = twenty_jobs(harness)
    harness.faults.before("lease", "promote_due", times=2)
    with Running(worker) as running:
        harness.until_finished(*jobs["work"], *jobs["fails"])
        worker.request_stop(SOON)
        report = running.report()
    assert (report.released, report.abandoned) == (0, 0)
    assert {harness.state(id) for id in jobs["work"]} == {JobState.SUCCEEDED}
    assert {harness.state(id) for id in jobs["fails"]} == {JobState.DEAD}
    (handler,) = logger.handlers
    assert isinstance(handler, RaisingHandler)
    assert handler.called.is_set()


def test_a_hook_that_raises_is_logged_once(harness: WorkerHarness, caplog: pytest.LogCaptureFixture) -> None:
    worker = Worker(harness.backend, harness.config(), metrics=raising_metrics(RuntimeError, set()))
    worker.handle("work", harness.count_runs)
    jobs = harness.add_many(10)
    with worker:
        harness.until_finished(*(job.id for job in jobs))
    assert caplog.text.count("The metrics hook started failed") == 1
