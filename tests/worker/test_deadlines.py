"""Watching the deadlines of handlers: look by look, without the deadlines' thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from scheduler.leases import Completion
from scheduler.worker.deadlines import Deadlines
from scheduler.worker.inflight import HeldJob
from scheduler.worker.outcome import Outcome, Verdict
from worker.harness import SOON, WorkerHarness, WorkerParts


class Watching(WorkerParts):
    def __init__(self, harness: WorkerHarness, **changes: object) -> None:
        super().__init__(harness, **{"lease_duration": 30.0, "heartbeat_interval": 10.0, "concurrency": 4, **changes})
        self.deadlines = Deadlines(self.run, self.inflight, self.runner)


Make = Callable[..., Watching]


@pytest.fixture
def watching(harness: WorkerHarness) -> Make:
    return lambda **changes: Watching(harness, **changes)


def test_the_pause_ends_at_the_nearest_deadline(harness: WorkerHarness, watching: Make) -> None:
    parts = watching()
    parts.hold(2, timeout=3.0)
    parts.start()
    parts.start()
    assert 2.0 < parts.deadlines.watch() <= 3.0


def test_a_handler_past_its_deadline_is_cancelled_and_then_given_its_grace(
    harness: WorkerHarness, watching: Make
) -> None:
    parts = watching(timeout_grace=5.0)
    parts.hold(1, timeout=0.01)
    row = parts.start()
    assert row.context is not None
    row.context.cancelled  # noqa: B018 - looked at before
    assert threading.Event().wait(0.02) is False
    pause = parts.deadlines.watch()
    assert row.context.reason == "timeout"
    assert 4.0 < pause <= 5.0
    assert not row.given_up


@pytest.fixture
def sleeper() -> Iterator[Callable[[Watching], tuple[HeldJob, threading.Event]]]:
    """Starts a job on a thread that does not heed its cancellation."""
    over, threads = threading.Event(), list[threading.Thread]()

    def start(parts: Watching) -> tuple[HeldJob, threading.Event]:
        rows: list[HeldJob] = []
        begun = threading.Event()

        def a_handler_that_hangs() -> None:
            rows.append(parts.start())
            begun.set()
            over.wait(SOON)
            parts.inflight.finish(rows[0], Outcome(Verdict.COMPLETE, Completion(lease=rows[0].lease)))

        thread = threading.Thread(target=a_handler_that_hangs)
        thread.start()
        threads.append(thread)
        assert begun.wait(SOON)
        return rows[0], over

    yield start
    over.set()
    for thread in threads:
        thread.join(SOON)


Sleeper = Callable[[Watching], tuple[HeldJob, threading.Event]]


def test_one_that_does_not_heed_its_cancellation_is_given_up_with_its_stack(
    harness: WorkerHarness, watching: Make, sleeper: Sleeper, caplog: pytest.LogCaptureFixture
) -> None:
    """Guarantee 4: it is renewed no more, its attempt counts, and its thread shows as stuck."""
    parts = watching(timeout_grace=0.0)
    (lease,) = parts.hold(1, timeout=0.001)
    row, over = sleeper(parts)
    harness.until(lambda: parts.deadlines.watch() is not None and row.given_up)
    assert (parts.inflight.stuck, parts.inflight.renewable()) == (1, [])
    assert harness.watch.counts["stuck"] == 1
    (outcome,) = parts.inflight.unsent(10)
    assert outcome.verdict is Verdict.RETRY
    assert "JobTimeout" in repr(outcome.request)
    assert "a_handler_that_hangs" in repr(outcome.request)
    assert "a_handler_that_hangs" in caplog.text
    assert parts.run.wake_event.wait(0.0)
    over.set()
    harness.until(lambda: parts.inflight.stuck == 0)
    parts.deadlines.watch()
    assert harness.watch.counts["stuck"] == 0, "a gauge goes down as well"
    assert lease.job.id == row.lease.job.id


def test_one_that_returns_while_it_is_being_given_up_has_succeeded(harness: WorkerHarness, watching: Make) -> None:
    parts = watching(timeout_grace=0.0)
    parts.hold(1, timeout=0.001)
    row = parts.start()
    parts.inflight.finish(row, Outcome(Verdict.COMPLETE, Completion(lease=row.lease)))
    assert not parts.deadlines._give_up(row)
    assert parts.inflight.stuck == 0
    assert [outcome.verdict for outcome in parts.inflight.unsent(10)] == [Verdict.COMPLETE]


def test_jobs_that_wait_for_a_whole_lease_go_back(harness: WorkerHarness, watching: Make) -> None:
    parts = watching(lease_duration=0.02, heartbeat_interval=0.01, queue_buffer=3, concurrency=1)
    leases = parts.hold(3)
    parts.start()
    harness.until(lambda: parts.deadlines.watch() is not None and len(parts.inflight._buffered) == 0)
    assert {outcome.lease for outcome in parts.inflight.unsent(10)} == set(leases[1:])
    assert parts.run.wake_event.wait(0.0)
