"""Renewing what is held: beat by beat, without the heartbeat's thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from scheduler.errors import BackendClosed
from scheduler.leases import Completion
from scheduler.states import JobState
from scheduler.testing import ManualClock
from scheduler.worker.lifecycle import Lifecycle
from scheduler.worker.maintenance import Heartbeat
from scheduler.worker.outcome import Outcome, Verdict
from scheduler.worker.shutdown import OwnThreads
from scheduler.worker.threads import Ticker
from worker.harness import SOON, WorkerHarness, WorkerParts


class Beating(WorkerParts):
    def __init__(self, harness: WorkerHarness, **changes: object) -> None:
        super().__init__(harness, **{"lease_duration": 30.0, "heartbeat_interval": 10.0, "concurrency": 4, **changes})
        self.heartbeat = Heartbeat(self.run, self.inflight)


Make = Callable[..., Beating]


@contextmanager
def beats(parts: Beating) -> Iterator[Ticker]:
    """The heartbeat on its thread, as a lifecycle makes it, within the block."""
    lifecycle = Lifecycle(parts.run, parts.runner, OwnThreads())
    lifecycle.inflight.take_in(parts.inflight.renewable())
    lifecycle._heartbeat.start()
    yield lifecycle._heartbeat
    lifecycle._heartbeat.stop()
    assert lifecycle._heartbeat.join(SOON)
    assert lifecycle.shutdown.error is None


@pytest.fixture
def beating(harness: WorkerHarness) -> Make:
    return lambda **changes: Beating(harness, **changes)


def test_it_renews_once_an_interval_everything_held_in_one_call(harness: WorkerHarness, beating: Make) -> None:
    parts = beating(queue_buffer=2)
    leases = parts.hold(5)
    parts.start()
    pause = parts.heartbeat.beat()
    assert 9.0 < pause <= 10.0
    (call,) = [call for call in harness.faults.calls if call.method == "renew"]
    assert call.args[1] == 30.0
    assert set(call.args[0]) == set(leases)  # type: ignore[call-overload]  # a sequence of leases
    assert harness.watch.counts["renewed"] == 5


def test_with_nothing_held_there_is_no_call(harness: WorkerHarness, beating: Make) -> None:
    parts = beating()
    for _ in range(5):
        parts.heartbeat.beat()
    assert harness.faults.count("renew") == 0


def test_a_refused_job_is_lost_its_handler_is_cancelled_and_the_pump_has_room(
    harness: WorkerHarness, beating: Make
) -> None:
    """Guarantee 2: another worker holds it by now."""
    parts = beating()
    lost, kept = parts.hold(2)
    rows = {row.lease: row for row in (parts.start(), parts.start())}
    harness.backend.wrapped.release([lost])
    parts.heartbeat.beat()
    assert parts.inflight.renewable() == [kept]
    context = rows[lost].context
    assert context is not None
    assert context.reason == "lease lost"
    assert harness.watch.counts["lost.renew"] == 1
    assert parts.run.wake_event.wait(0.0)


def test_jobs_settled_while_the_renewal_was_under_way_are_no_lost_leases(harness: WorkerHarness, beating: Make) -> None:
    parts = beating()
    (lease,) = parts.hold(1)
    row = parts.start()
    gate = harness.faults.block("renew")
    with ThreadPoolExecutor(1) as pool:
        beat = pool.submit(parts.heartbeat.beat)
        assert gate.entered.wait(SOON)
        parts.inflight.finish(row, Outcome(Verdict.COMPLETE, Completion(lease=lease)))
        sent = parts.inflight.unsent(10)
        harness.backend.wrapped.complete([Completion(lease=lease)])  # in the store; the answer is on its way
        gate.release()
        beat.result(SOON)
    parts.inflight.forget(outcome.lease for outcome in sent)
    assert harness.watch.counts["lost.renew"] == 0


def test_a_renewal_that_fails_is_repeated_soon_and_everything_stays_held(harness: WorkerHarness, beating: Make) -> None:
    parts = beating()
    parts.hold(3)
    harness.faults.before("renew", times=4)
    began = time.monotonic()
    with beats(parts):
        harness.until(lambda: harness.faults.count("renew") == 5)
    assert time.monotonic() - began < 2.0 * 4
    assert parts.inflight.held == 3
    assert harness.watch.counts["renewed"] == 3


def test_with_short_leases_the_back_off_is_no_longer_than_a_heartbeat(harness: WorkerHarness, beating: Make) -> None:
    parts = beating(lease_duration=0.5, heartbeat_interval=0.05)
    parts.hold(1)
    harness.faults.before("renew", times=None)
    with beats(parts) as ticker:
        harness.until(lambda: harness.faults.count("renew") >= 8)
        assert all(ticker._back_off.next() <= 0.05 for _ in range(20))


@pytest.mark.parametrize("error", [BackendClosed, ZeroDivisionError, SystemExit])
def test_an_error_that_no_repeat_can_fix_is_raised(
    harness: WorkerHarness, beating: Make, error: type[BaseException]
) -> None:
    parts = beating()
    parts.hold(1)
    harness.faults.before("renew", error=lambda: error("x"))
    with pytest.raises(error):
        parts.heartbeat.beat()


def test_renewing_keeps_a_job_longer_than_its_lease(harness: WorkerHarness, beating: Make) -> None:
    if not hasattr(harness.backend, "clock"):
        pytest.skip("needs a clock that can be moved")
    clock = harness.backend.clock = ManualClock()
    parts = beating(lease_duration=30.0, heartbeat_interval=10.0)
    (lease,) = parts.hold(1)
    for _ in range(10):
        clock.advance(20.0)
        parts.heartbeat.beat()
        assert harness.backend.recover_expired([harness.queue], 10).ready == 0
    assert harness.state(lease.job.id) is JobState.LEASED
    clock.advance(30.1)
    assert harness.backend.recover_expired([harness.queue], 10).ready == 1
