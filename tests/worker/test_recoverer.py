"""Jobs of workers that have vanished come back: turn by turn, without the recoverer's thread."""

from __future__ import annotations

import time

import pytest

from scheduler.leases import Completion, Recovery
from scheduler.queues import Retention
from scheduler.states import JobState
from scheduler.testing import ManualClock
from scheduler.worker.recoverer import Recoverer
from scheduler_backends.memory import MemoryBackend
from worker.stand import Rooms, Stand


def a_recoverer(stand: Stand, **changes: object) -> tuple[Recoverer, Rooms]:
    """One that has run for long, so that it need not wait for holders to renew."""
    rooms = Rooms(stand, **{"recover_interval": 10.0, **changes})
    rooms.outage._recover_from = time.monotonic()
    return Recoverer(rooms.run), rooms


def test_an_expired_lease_goes_back_to_ready_and_rings_the_pump(stand: Stand) -> None:
    job = stand.add()
    assert stand.lease(duration=0.01)
    recoverer, rooms = a_recoverer(stand)
    stand.until(lambda: recoverer.recover() > 0.0 and stand.state(job.id) is JobState.READY)
    recovered = stand.job(job.id)
    assert (recovered.crashes, recovered.attempts) == (1, 1)
    assert recovered.last_error is not None
    assert recovered.last_error.kind == "LeaseExpired"
    assert stand.watch.counts["recovered.ready"] == 1
    assert rooms.run.doorbell.wait(0.0)


def test_a_job_that_kills_its_workers_is_dead_after_its_last_attempt(stand: Stand) -> None:
    """Guarantee 12: at most max_retries + 1 leases, for a reason that says so, and the next job is not held up."""
    if not hasattr(stand.backend, "clock"):
        pytest.skip("needs a clock that can be moved")
    clock = stand.backend.clock = ManualClock()
    killer, behind = stand.add(max_retries=2), stand.add()
    recoverer, _ = a_recoverer(stand)
    for leases in (1, 2, 3):
        (lease,) = [lease for lease in stand.lease(10, duration=10.0) if lease.job.id == killer.id]
        assert lease.job.attempts == leases
        clock.advance(10.1)
        recoverer.recover()
    dead = stand.job(killer.id)
    assert (dead.state, dead.attempts, dead.crashes) == (JobState.DEAD, 3, 3)
    assert [error.kind for error in dead.errors] == ["LeaseExpired"] * 3
    assert stand.state(behind.id) is JobState.READY
    assert killer.id not in {lease.job.id for lease in stand.lease(10)}
    assert stand.watch.counts["recovered.dead"] == 1


def test_it_sleeps_until_the_next_expiry_and_no_longer_than_its_interval(stand: Stand) -> None:
    recoverer, _ = a_recoverer(stand)
    assert 8.0 <= recoverer.recover() <= 10.0
    stand.add()
    stand.lease(duration=3_600.0)
    assert 8.0 <= recoverer.recover() <= 10.0
    stand.add()
    stand.lease(duration=2.0)
    assert 0.0 < recoverer.recover() <= 2.02


def test_its_interval_is_jittered_downwards_only(stand: Stand) -> None:
    recoverer, _ = a_recoverer(stand)
    pauses = [recoverer.recover() for _ in range(50)]
    assert all(8.0 <= pause <= 10.0 for pause in pauses)
    assert len(set(pauses)) == 50


def test_right_after_the_start_it_asks_the_store_nothing(stand: Stand) -> None:
    rooms = Rooms(stand, lease_duration=30.0, heartbeat_interval=10.0)
    recoverer = Recoverer(rooms.run)
    stand.add()
    stand.lease(duration=0.001)
    assert 11.0 < recoverer.recover() <= 12.0
    assert stand.faults.count("recover_expired") == 0


def test_after_its_process_stood_still_the_holders_renew_first(stand: Stand) -> None:
    """A stopped process that goes on would else take its own jobs away from its own handlers."""
    recoverer, _ = a_recoverer(stand, lease_duration=30.0, heartbeat_interval=10.0)
    recoverer.recover()
    asked = stand.faults.count("recover_expired")
    recoverer._due = time.monotonic() - 9.0
    recoverer.recover()
    assert stand.faults.count("recover_expired") == asked + 1
    recoverer._due = time.monotonic() - 11.0
    assert 11.0 < recoverer.recover() <= 12.0
    assert stand.faults.count("recover_expired") == asked + 1


def test_retention_is_kept_once_a_minute(stand: Stand) -> None:
    recoverer, _ = a_recoverer(stand)
    assert 0.0 <= recoverer._next_trim - time.monotonic() <= 60.0
    recoverer.recover()
    recoverer._next_trim = time.monotonic()
    recoverer.recover()
    recoverer.recover()
    assert stand.faults.count("trim") == 1
    assert 59.0 < recoverer._next_trim - time.monotonic() <= 60.0


def test_what_one_call_leaves_is_trimmed_at_once(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a busy worker's jobs finish faster than they are trimmed, and the store grows without bound."""
    recoverer, _ = a_recoverer(stand)
    left = [1_000, 1_000, 17]
    monkeypatch.setattr(type(stand.backend), "trim", lambda self, queues, limit: left.pop(0))
    recoverer._next_trim = time.monotonic()
    pauses = [recoverer.recover() for _ in range(4)]
    assert not left
    assert [pause < 0.1 for pause in pauses] == [True, True, False, False]


def test_more_expired_than_one_call_recovers_is_followed_soon(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    recoverer, _ = a_recoverer(stand)
    monkeypatch.setattr(
        type(stand.backend),
        "recover_expired",
        lambda self, queues, limit: Recovery(ready=1_000, dead=0, next_expiry=0.0),
    )
    assert recoverer.recover() < 0.1


def test_finished_jobs_are_trimmed_when_retention_says_so() -> None:
    clock = ManualClock()
    stand = Stand(MemoryBackend(clock=clock, retention=Retention(succeeded=60.0)))
    job = stand.add()
    stand.backend.complete([Completion(lease=lease) for lease in stand.lease()])
    recoverer, _ = a_recoverer(stand)
    recoverer._next_trim = time.monotonic()
    recoverer.recover()
    assert stand.state(job.id) is JobState.SUCCEEDED
    clock.advance(61.0)
    recoverer._next_trim = time.monotonic()
    recoverer.recover()
    assert stand.state(job.id) is None
