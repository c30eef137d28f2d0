"""Metrics hooks may fail without an effect on jobs."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from scheduler.errors import ConfigError
from scheduler.jobs import Job, Priority
from scheduler.leases import Recovery
from scheduler.logs import GuardedLogger
from scheduler.metrics import HOOKS, CountingMetrics, Metrics, MetricsGroup, NopMetrics, guarded
from scheduler.states import JobState

LOGGER = logging.getLogger("observed")
NOW = datetime(2030, 1, 1, tzinfo=UTC)
JOB = Job(
    id="1",
    queue="mail",
    type="send",
    payload=b"",
    state=JobState.READY,
    priority=Priority.NORMAL,
    run_at=NOW,
    created_at=NOW,
    max_retries=3,
    timeout=30.0,
)

CALLS: dict[str, Sequence[object]] = {
    "enqueued": (JOB, True),
    "promoted": (2,),
    "leased": (3,),
    "started": (JOB,),
    "finished": (JOB, "complete", 0.5),
    "settled": ("complete", 4),
    "lost": ("renew", 5),
    "renewed": (6,),
    "recovered": (Recovery(ready=1, dead=2, next_expiry=None),),
    "stuck": (7,),
    "call_failed": ("lease", OSError()),
}
COUNTED = {
    "enqueued": 1,
    "promoted": 2,
    "leased": 3,
    "started": 1,
    "finished.complete": 1,
    "settled.complete": 4,
    "lost.renew": 5,
    "renewed": 6,
    "recovered.ready": 1,
    "recovered.dead": 2,
    "stuck": 7,
    "call_failed.lease": 1,
}


def call_every_hook(metrics: Metrics) -> None:
    for name, arguments in CALLS.items():
        getattr(metrics, name)(*arguments)


def everything_raises(error: Callable[[], BaseException]) -> Metrics:
    def hook(self: Metrics, *arguments: object) -> None:
        raise error()

    return type("Failing", (Metrics,), dict.fromkeys(HOOKS, hook))()  # type: ignore[no-any-return]  # made on the spot


class HomeMade(BaseException):
    pass


def test_the_calls_above_are_all_hooks() -> None:
    assert set(CALLS) == set(HOOKS)
    for name, arguments in CALLS.items():
        inspect.signature(getattr(Metrics(), name)).bind(*arguments)


@pytest.mark.parametrize("metrics", [Metrics(), NopMetrics()])
def test_hooks_do_nothing_unless_overridden(metrics: Metrics) -> None:
    call_every_hook(metrics)
    assert guarded(metrics, LOGGER) is metrics  # and are not even guarded


def test_counting_counts_each_hook() -> None:
    metrics = CountingMetrics()
    call_every_hook(metrics)
    assert metrics.counts == COUNTED


def test_a_job_found_there_already_is_counted_apart() -> None:
    metrics = CountingMetrics()
    metrics.enqueued(JOB, False)
    assert metrics.counts == {"enqueued.existing": 1}


def test_stuck_is_the_present_number() -> None:
    metrics = CountingMetrics()
    for threads in (3, 1):
        metrics.stuck(threads)
    assert metrics.counts["stuck"] == 1


def test_the_counts_read_are_a_copy() -> None:
    metrics = CountingMetrics()
    metrics.counts["leased"] = 9
    assert metrics.counts["leased"] == 0


def test_no_count_is_lost_between_threads() -> None:
    metrics = CountingMetrics()

    def count() -> None:
        for _ in range(2_000):
            metrics.leased(1)

    with ThreadPoolExecutor(8) as pool:
        for _ in range(8):
            pool.submit(count)
    assert metrics.counts["leased"] == 16_000


def test_a_guard_passes_every_hook_on() -> None:
    metrics = CountingMetrics()
    call_every_hook(guarded(metrics, LOGGER))
    assert metrics.counts == COUNTED


def test_a_subclass_that_does_nothing_new_is_guarded_too() -> None:
    """Only the two classes of the library are known to be harmless."""

    class Mine(NopMetrics):
        pass

    assert type(guarded(Mine(), LOGGER)) is Metrics


@pytest.mark.parametrize("error", [ValueError, RecursionError, SystemExit, GeneratorExit, HomeMade])
def test_whatever_a_hook_raises_is_logged_once_and_dropped(
    error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    metrics = guarded(everything_raises(error), LOGGER)
    for _ in range(3):
        call_every_hook(metrics)
    assert len(caplog.records) == len(HOOKS)
    assert all(record.exc_info and record.exc_info[0] is error for record in caplog.records)
    for name in HOOKS:
        assert sum(f"hook {name} failed" in message for message in caplog.messages) == 1


def test_an_error_that_raises_when_it_is_looked_at_is_dropped_too() -> None:
    class Unasked(Exception):  # noqa: N818 - named for what it is
        @property  # type: ignore[misc]  # what isinstance() asks for when the type does not fit
        def __class__(self) -> type:
            raise RuntimeError("no class")

    class Fails(Metrics):
        def stuck(self, threads: int) -> None:
            raise Unasked

    class FailsToLog(logging.Handler):
        def handle(self, record: logging.LogRecord) -> bool:
            raise Unasked

    logger = logging.Logger("unasked")  # noqa: LOG001 - seen by this test alone
    logger.addHandler(FailsToLog())
    guarded(Fails(), GuardedLogger(logger)).stuck(1)


def test_a_ctrl_c_on_the_main_thread_passes() -> None:
    with pytest.raises(KeyboardInterrupt):
        guarded(everything_raises(KeyboardInterrupt), LOGGER).leased(1)


def test_no_ctrl_c_arrives_on_another_thread(caplog: pytest.LogCaptureFixture) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(guarded(everything_raises(KeyboardInterrupt), LOGGER).leased, 1).result(timeout=30)
    assert len(caplog.records) == 1


def test_a_group_is_told_in_order() -> None:
    first, second = CountingMetrics(), CountingMetrics()
    call_every_hook(MetricsGroup(first, NopMetrics(), second))
    assert first.counts == second.counts == COUNTED
    call_every_hook(MetricsGroup())  # of nobody: nothing happens


@pytest.mark.parametrize("order", [1, -1])
def test_one_of_a_group_may_fail_without_silencing_the_others(order: int, caplog: pytest.LogCaptureFixture) -> None:
    counting = CountingMetrics()
    members = [everything_raises(HomeMade), MetricsGroup(counting)][::order]
    metrics = guarded(MetricsGroup(*members), LOGGER)
    for _ in range(2):
        call_every_hook(metrics)
    assert counting.counts == {**{name: count * 2 for name, count in COUNTED.items()}, "stuck": 7}
    assert len(caplog.records) == len(HOOKS)


@pytest.mark.parametrize("wrong", [5, None, CountingMetrics])
def test_a_group_is_made_of_metrics(wrong: Metrics) -> None:
    with pytest.raises(ConfigError, match=r"^members: "):
        MetricsGroup(CountingMetrics(), wrong)
