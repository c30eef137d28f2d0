"""How the calls to the store are going: back-off, outages, and when recovery may go on."""

from __future__ import annotations

import logging

import pytest

from scheduler.config import WorkerConfig
from scheduler.errors import (
    BackendClosed,
    BackendError,
    BackendUnavailable,
    ConfigError,
    NotSupported,
    SchemaMismatch,
    TopologyError,
)
from scheduler.logs import GuardedLogger
from scheduler.metrics import CountingMetrics
from scheduler.worker import outage as room
from scheduler.worker.outage import LONGEST_BACK_OFF, RECOVERY_MARGIN, BackOff, Outage, is_transient
from scheduler.worker.shutdown import Shutdown


class Time:
    """In the place of the room's clock."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    monkeypatch.setattr(room, "time", time)
    return time


def an_outage(metrics: CountingMetrics | None = None, **config: float) -> Outage:
    chosen = WorkerConfig(**config)  # type: ignore[arg-type]  # by name
    logger = GuardedLogger(logging.getLogger("tests.outage"))
    return Outage(chosen, metrics or CountingMetrics(), logger, Shutdown(chosen, logger, lambda: None))


def fail(outage: Outage, error: BaseException | None = None) -> None:
    error = error or BackendUnavailable("away")
    with pytest.raises(type(error)):
        outage.call("lease", raise_it, error)


def raise_it(error: BaseException) -> None:
    raise error


def succeed(outage: Outage) -> None:
    outage.call("lease", lambda: None)


@pytest.mark.parametrize("error", [BackendUnavailable("x"), BackendError("x"), TopologyError("x")])
def test_a_store_that_fails_may_be_well_again(error: BaseException) -> None:
    assert is_transient(error)


@pytest.mark.parametrize(
    "error",
    [
        BackendClosed("x"),
        SchemaMismatch("x"),
        NotSupported("x"),
        ConfigError("x", "y"),
        ZeroDivisionError(),
        SystemExit(),
        KeyboardInterrupt(),
    ],
)
def test_an_error_that_no_repeat_can_fix_is_not_transient(error: BaseException) -> None:
    assert not is_transient(error)


def test_back_off_doubles_jittered_up_to_its_cap_for_ever() -> None:
    back_off = BackOff()
    waits = [back_off.next() for _ in range(2_000)]
    for number, wait in enumerate(waits[:10], start=1):
        whole = min(LONGEST_BACK_OFF, 0.05 * 2**number)
        assert whole / 2 <= wait <= whole
    assert all(LONGEST_BACK_OFF / 2 <= wait <= LONGEST_BACK_OFF for wait in waits[10:])
    assert len(set(waits)) > 1_900


def test_back_off_restarts_after_a_success() -> None:
    back_off = BackOff()
    for _ in range(20):
        back_off.next()
    back_off.reset()
    assert back_off.next() <= 0.1


def test_recovery_waits_after_the_start_for_the_holders_to_renew(time: Time) -> None:
    outage = an_outage(lease_duration=30.0, heartbeat_interval=10.0)
    assert outage.recovery_pause() == 10.0 + RECOVERY_MARGIN
    time.now += 11.9
    assert 0.0 < outage.recovery_pause() < 0.2
    time.now += 0.2
    assert outage.recovery_pause() == 0.0


def test_recovery_never_waits_longer_than_a_lease(time: Time) -> None:
    assert an_outage(lease_duration=0.5, heartbeat_interval=0.05).recovery_pause() == 0.5


def test_after_an_outage_longer_than_a_heartbeat_recovery_waits_again(time: Time) -> None:
    outage = an_outage(lease_duration=30.0, heartbeat_interval=10.0)
    time.now += 100.0
    succeed(outage)
    fail(outage)
    time.now += 10.1
    fail(outage)
    assert outage.seconds == pytest.approx(10.1)
    succeed(outage)
    assert outage.recovery_pause() == 12.0
    assert outage.seconds == 0.0


def test_a_short_failure_does_not_hold_recovery_up(time: Time) -> None:
    outage = an_outage(lease_duration=30.0, heartbeat_interval=10.0)
    time.now += 100.0
    succeed(outage)
    fail(outage)
    time.now += 9.9
    succeed(outage)
    assert outage.recovery_pause() == 0.0


def test_an_idle_worker_that_makes_no_calls_has_no_outage(time: Time) -> None:
    outage = an_outage(lease_duration=30.0, heartbeat_interval=10.0)
    time.now += 1_000.0
    assert outage.seconds == 0.0
    succeed(outage)
    assert outage.recovery_pause() == 0.0


def test_a_process_that_stood_still_recovers_later(time: Time) -> None:
    outage = an_outage(lease_duration=30.0, heartbeat_interval=10.0)
    time.now += 100.0
    outage.process_was_suspended()
    assert outage.recovery_pause() == 12.0


def test_an_outage_is_logged_in_few_lines_and_its_end_in_one(time: Time, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tests.outage")
    metrics = CountingMetrics()
    outage = an_outage(metrics)
    for _ in range(600):
        fail(outage)
        time.now += 0.1
    succeed(outage)
    succeed(outage)
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) in (2, 3)
    assert [record.message for record in caplog.records if record.levelno == logging.INFO] == [
        "The store is available again after 60.0 s"
    ]
    assert metrics.counts["call_failed.lease"] == 600


def test_what_ends_the_worker_is_not_promised_to_be_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    metrics = CountingMetrics()
    outage = an_outage(metrics)
    fail(outage, BackendClosed("closed"))
    fail(outage, ZeroDivisionError())
    assert not caplog.records
    assert not metrics.counts
