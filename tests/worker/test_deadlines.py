"""Watching the deadlines of handlers: look by look, without the deadlines' thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from scheduler.leases import Completion, Lease
from scheduler.worker.deadlines import Deadlines
from scheduler.worker.outcome import Outcome, Verdict
from scheduler.worker.rows import Row
from worker.stand import SOON, Rooms, Stand


class Watching(Rooms):
    def __init__(self, stand: Stand, **changes: object) -> None:
        super().__init__(stand, **{"lease_duration": 30.0, "heartbeat_interval": 10.0, "concurrency": 4, **changes})
        self.deadlines = Deadlines(self.run, self.inflight, self.runner)

    def hold(self, count: int = 1, **fields: object) -> list[Lease]:
        self.stand.add_many(count, **fields)
        leases = list(self.stand.lease(count, duration=self.config.lease_duration))
        self.inflight.take_in(leases)
        return leases

    def start(self) -> Row:
        row = self.inflight.begin()
        assert row is not None
        return row


Make = Callable[..., Watching]


@pytest.fixture
def watching(stand: Stand) -> Make:
    return lambda **changes: Watching(stand, **changes)


def test_the_pause_ends_at_the_nearest_deadline(stand: Stand, watching: Make) -> None:
    rooms = watching()
    rooms.hold(2, timeout=3.0)
    rooms.start()
    rooms.start()
    assert 2.0 < rooms.deadlines.watch() <= 3.0


def test_a_handler_past_its_deadline_is_cancelled_and_then_given_its_grace(stand: Stand, watching: Make) -> None:
    rooms = watching(timeout_grace=5.0)
    rooms.hold(1, timeout=0.01)
    row = rooms.start()
    assert row.context is not None
    row.context.cancelled  # noqa: B018 - looked at before
    assert threading.Event().wait(0.02) is False
    pause = rooms.deadlines.watch()
    assert row.context.reason == "timeout"
    assert 4.0 < pause <= 5.0
    assert not row.given_up


@pytest.fixture
def sleeper() -> Iterator[Callable[[Watching], tuple[Row, threading.Event]]]:
    """Starts a job on a thread that does not heed its cancellation."""
    over, threads = threading.Event(), list[threading.Thread]()

    def start(rooms: Watching) -> tuple[Row, threading.Event]:
        rows: list[Row] = []
        begun = threading.Event()

        def a_handler_that_hangs() -> None:
            rows.append(rooms.start())
            begun.set()
            over.wait(SOON)
            rooms.inflight.finish(rows[0], Outcome(Verdict.COMPLETE, Completion(lease=rows[0].lease)))

        thread = threading.Thread(target=a_handler_that_hangs)
        thread.start()
        threads.append(thread)
        assert begun.wait(SOON)
        return rows[0], over

    yield start
    over.set()
    for thread in threads:
        thread.join(SOON)


Sleeper = Callable[[Watching], tuple[Row, threading.Event]]


def test_one_that_does_not_heed_its_cancellation_is_given_up_with_its_stack(
    stand: Stand, watching: Make, sleeper: Sleeper, caplog: pytest.LogCaptureFixture
) -> None:
    """Guarantee 4: it is renewed no more, its attempt counts, and its thread shows as stuck."""
    rooms = watching(timeout_grace=0.0)
    (lease,) = rooms.hold(1, timeout=0.001)
    row, over = sleeper(rooms)
    stand.until(lambda: rooms.deadlines.watch() is not None and row.given_up)
    assert (rooms.inflight.stuck, rooms.inflight.renewable()) == (1, [])
    assert stand.watch.counts["stuck"] == 1
    (outcome,) = rooms.inflight.unsent(10)
    assert outcome.verdict is Verdict.RETRY
    assert "JobTimeout" in repr(outcome.order)
    assert "a_handler_that_hangs" in repr(outcome.order)
    assert "a_handler_that_hangs" in caplog.text
    assert rooms.run.doorbell.wait(0.0)
    over.set()
    stand.until(lambda: rooms.inflight.stuck == 0)
    rooms.deadlines.watch()
    assert stand.watch.counts["stuck"] == 0, "a gauge goes down as well"
    assert lease.job.id == row.lease.job.id


def test_one_that_returns_while_it_is_being_given_up_has_succeeded(stand: Stand, watching: Make) -> None:
    rooms = watching(timeout_grace=0.0)
    rooms.hold(1, timeout=0.001)
    row = rooms.start()
    rooms.inflight.finish(row, Outcome(Verdict.COMPLETE, Completion(lease=row.lease)))
    assert not rooms.deadlines._give_up(row)
    assert rooms.inflight.stuck == 0
    assert [outcome.verdict for outcome in rooms.inflight.unsent(10)] == [Verdict.COMPLETE]


def test_jobs_that_wait_for_a_whole_lease_go_back(stand: Stand, watching: Make) -> None:
    rooms = watching(lease_duration=0.02, heartbeat_interval=0.01, queue_buffer=3, concurrency=1)
    leases = rooms.hold(3)
    rooms.start()
    stand.until(lambda: rooms.deadlines.watch() is not None and rooms.inflight.buffered == 0)
    assert {outcome.lease for outcome in rooms.inflight.unsent(10)} == set(leases[1:])
    assert rooms.run.doorbell.wait(0.0)
