"""Renewing what is held: beat by beat, without the heartbeat's thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from scheduler.errors import BackendClosed
from scheduler.leases import Completion, Lease
from scheduler.states import JobState
from scheduler.testing import ManualClock
from scheduler.worker.heartbeat import Heartbeat
from scheduler.worker.outcome import Outcome, Verdict
from scheduler.worker.rows import Row
from worker.stand import SOON, Rooms, Stand


class Beating(Rooms):
    def __init__(self, stand: Stand, **changes: object) -> None:
        super().__init__(stand, **{"lease_duration": 30.0, "heartbeat_interval": 10.0, "concurrency": 4, **changes})
        self.heartbeat = Heartbeat(self.run, self.inflight)

    def hold(self, count: int = 1, **fields: object) -> list[Lease]:
        self.stand.add_many(count, **fields)
        leases = list(self.stand.lease(count, duration=self.config.lease_duration))
        self.inflight.take_in(leases)
        return leases

    def start(self) -> Row:
        row = self.inflight.begin()
        assert row is not None
        return row

    def now_due(self) -> None:
        """Let the time of the next renewal have come, for which it sleeps."""
        self.heartbeat._next = time.monotonic()


Make = Callable[..., Beating]


@pytest.fixture
def beating(stand: Stand) -> Make:
    return lambda **changes: Beating(stand, **changes)


def test_it_renews_once_an_interval_everything_held_in_one_call(stand: Stand, beating: Make) -> None:
    rooms = beating(queue_buffer=2)
    leases = rooms.hold(5)
    rooms.start()
    pause = rooms.heartbeat.beat()
    assert stand.faults.count("renew") == 0
    assert 9.0 < pause <= 10.0
    rooms.now_due()
    pause = rooms.heartbeat.beat()
    assert 9.0 < pause <= 10.0
    (call,) = [call for call in stand.faults.calls if call.method == "renew"]
    assert call.args[1] == 30.0
    assert set(call.args[0]) == set(leases)  # type: ignore[call-overload]  # a sequence of leases
    assert stand.watch.counts["renewed"] == 5


def test_with_nothing_held_there_is_no_call(stand: Stand, beating: Make) -> None:
    rooms = beating()
    for _ in range(5):
        rooms.now_due()
        rooms.heartbeat.beat()
    assert stand.faults.count("renew") == 0


def test_a_refused_job_is_lost_its_handler_is_told_and_the_pump_has_room(stand: Stand, beating: Make) -> None:
    """Guarantee 2: another worker holds it by now."""
    rooms = beating()
    lost, kept = rooms.hold(2)
    rows = {row.lease: row for row in (rooms.start(), rooms.start())}
    stand.backend.wrapped.release([lost])
    rooms.now_due()
    rooms.heartbeat.beat()
    assert rooms.inflight.renewable() == [kept]
    context = rows[lost].context
    assert context is not None
    assert context.reason == "lease lost"
    assert stand.watch.counts["lost.renew"] == 1
    assert rooms.run.doorbell.wait(0.0)


def test_jobs_settled_while_the_renewal_was_under_way_are_no_lost_leases(stand: Stand, beating: Make) -> None:
    rooms = beating()
    (lease,) = rooms.hold(1)
    row = rooms.start()
    gate = stand.faults.block("renew")
    with ThreadPoolExecutor(1) as pool:
        rooms.now_due()
        beat = pool.submit(rooms.heartbeat.beat)
        assert gate.entered.wait(SOON)
        rooms.inflight.finish(row, Outcome(Verdict.COMPLETE, Completion(lease=lease)))
        sent = rooms.inflight.unsent(10)
        stand.backend.wrapped.complete([Completion(lease=lease)])  # in the store; the answer is on its way
        gate.release()
        beat.result(SOON)
    rooms.inflight.forget(outcome.lease for outcome in sent)
    assert stand.watch.counts["lost.renew"] == 0


def test_a_renewal_that_fails_is_repeated_soon_and_everything_stays_held(stand: Stand, beating: Make) -> None:
    rooms = beating()
    rooms.hold(3)
    stand.faults.before("renew", times=4)
    pauses = []
    for _ in range(5):
        rooms.now_due()
        pauses.append(rooms.heartbeat.beat())
    assert stand.faults.count("renew") == 5
    assert all(pause <= 2.0 for pause in pauses[:4])
    assert pauses[4] > 9.0
    assert rooms.inflight.held == 3
    assert stand.watch.counts["renewed"] == 3


def test_with_short_leases_the_back_off_is_no_longer_than_a_heartbeat(stand: Stand, beating: Make) -> None:
    rooms = beating(lease_duration=0.5, heartbeat_interval=0.05)
    rooms.hold(1)
    stand.faults.before("renew", times=None)
    for _ in range(8):
        rooms.now_due()
        assert rooms.heartbeat.beat() <= 0.05


@pytest.mark.parametrize("error", [BackendClosed, ZeroDivisionError, SystemExit])
def test_what_no_repeat_heals_is_raised(stand: Stand, beating: Make, error: type[BaseException]) -> None:
    rooms = beating()
    rooms.hold(1)
    stand.faults.before("renew", error=lambda: error("x"))
    rooms.now_due()
    with pytest.raises(error):
        rooms.heartbeat.beat()


def test_renewing_keeps_a_job_longer_than_its_lease(stand: Stand, beating: Make) -> None:
    if not hasattr(stand.backend, "clock"):
        pytest.skip("needs a clock that can be moved")
    clock = stand.backend.clock = ManualClock()
    rooms = beating(lease_duration=30.0, heartbeat_interval=10.0)
    (lease,) = rooms.hold(1)
    for _ in range(10):
        clock.advance(20.0)
        rooms.now_due()
        rooms.heartbeat.beat()
        assert stand.backend.recover_expired([stand.queue], 10).ready == 0
    assert stand.state(lease.job.id) is JobState.LEASED
    clock.advance(30.1)
    assert stand.backend.recover_expired([stand.queue], 10).ready == 1
