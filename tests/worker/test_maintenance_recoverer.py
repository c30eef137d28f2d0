"""Jobs of workers that have vanished come back: turn by turn, without the recoverer's thread."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from scheduler.errors import BackendError
from scheduler.leases import Completion, Recovery
from scheduler.queues import Retention
from scheduler.states import JobState
from scheduler.testing import ManualClock
from scheduler.worker.maintenance import Recoverer
from scheduler_backends.memory import MemoryBackend
from worker.harness import WorkerHarness, WorkerParts


def a_recoverer(harness: WorkerHarness, **changes: object) -> tuple[Recoverer, WorkerParts]:
    """One that has run for long, so that it need not wait for holders to renew."""
    parts = WorkerParts(harness, **{"recover_interval": 10.0, **changes})
    parts.outage._recover_from = time.monotonic()
    return Recoverer(parts.run), parts


def test_an_expired_lease_goes_back_to_ready_and_rings_the_pump(harness: WorkerHarness) -> None:
    job = harness.add()
    assert harness.lease(duration=0.01)
    recoverer, parts = a_recoverer(harness)
    harness.until(lambda: recoverer.recover() > 0.0 and harness.state(job.id) is JobState.READY)
    recovered = harness.job(job.id)
    assert (recovered.crashes, recovered.attempts) == (1, 1)
    assert recovered.last_error is not None
    assert recovered.last_error.kind == "LeaseExpired"
    assert harness.watch.counts["recovered.ready"] == 1
    assert parts.run.wake_event.wait(0.0)


def test_a_job_that_kills_its_workers_is_dead_after_its_last_attempt(harness: WorkerHarness) -> None:
    """Guarantee 12: at most max_retries + 1 leases, for a reason that says so, and the next job is not held up."""
    if not hasattr(harness.backend, "clock"):
        pytest.skip("needs a clock that can be moved")
    clock = harness.backend.clock = ManualClock()
    killer, behind = harness.add(max_retries=2), harness.add()
    recoverer, _ = a_recoverer(harness)
    for leases in (1, 2, 3):
        (lease,) = [lease for lease in harness.lease(10, duration=10.0) if lease.job.id == killer.id]
        assert lease.job.attempts == leases
        clock.advance(10.1)
        recoverer.recover()
    dead = harness.job(killer.id)
    assert (dead.state, dead.attempts, dead.crashes) == (JobState.DEAD, 3, 3)
    assert [error.kind for error in dead.errors] == ["LeaseExpired"] * 3
    assert harness.state(behind.id) is JobState.READY
    assert killer.id not in {lease.job.id for lease in harness.lease(10)}
    assert harness.watch.counts["recovered.dead"] == 1


def test_it_sleeps_until_the_next_expiry_and_no_longer_than_its_interval(harness: WorkerHarness) -> None:
    recoverer, _ = a_recoverer(harness)
    assert 8.0 <= recoverer.recover() <= 10.0
    harness.add()
    harness.lease(duration=3_600.0)
    assert 8.0 <= recoverer.recover() <= 10.0
    harness.add()
    harness.lease(duration=2.0)
    assert 0.0 < recoverer.recover() <= 2.02


def test_its_interval_is_jittered_downwards_only(harness: WorkerHarness) -> None:
    recoverer, _ = a_recoverer(harness)
    pauses = [recoverer.recover() for _ in range(50)]
    assert all(8.0 <= pause <= 10.0 for pause in pauses)
    assert len(set(pauses)) == 50


def test_right_after_the_start_it_asks_the_store_nothing(harness: WorkerHarness) -> None:
    parts = WorkerParts(harness, lease_duration=30.0, heartbeat_interval=10.0)
    recoverer = Recoverer(parts.run)
    harness.add()
    harness.lease(duration=0.001)
    assert 11.0 < recoverer.recover() <= 12.0
    assert harness.faults.count("recover_expired") == 0


def test_after_its_process_stood_still_the_holders_renew_first(harness: WorkerHarness) -> None:
    """A stopped process that goes on would else take its own jobs away from its own handlers."""
    recoverer, _ = a_recoverer(harness, lease_duration=30.0, heartbeat_interval=10.0)
    recoverer.recover()
    asked = harness.faults.count("recover_expired")
    recoverer._due = time.monotonic() - 9.0
    recoverer.recover()
    assert harness.faults.count("recover_expired") == asked + 1
    recoverer._due = time.monotonic() - 11.0
    assert 11.0 < recoverer.recover() <= 12.0
    assert harness.faults.count("recover_expired") == asked + 1


def test_retention_is_kept_once_a_minute(harness: WorkerHarness) -> None:
    recoverer, _ = a_recoverer(harness)
    assert 0.0 <= recoverer._next_trim - time.monotonic() <= 60.0
    recoverer.recover()
    recoverer._next_trim = time.monotonic()
    recoverer.recover()
    recoverer.recover()
    assert harness.faults.count("trim") == 1
    assert 59.0 < recoverer._next_trim - time.monotonic() <= 60.0


def test_what_one_call_leaves_is_trimmed_at_once(harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a busy worker's jobs finish faster than they are trimmed, and the store grows without bound."""
    recoverer, _ = a_recoverer(harness)
    left = [1_000, 1_000, 17]
    monkeypatch.setattr(type(harness.backend), "trim", lambda self, queues, limit: left.pop(0))
    recoverer._next_trim = time.monotonic()
    pauses = [recoverer.recover() for _ in range(4)]
    assert not left
    assert [pause < 0.1 for pause in pauses] == [True, True, False, False]


def test_more_expired_than_one_call_recovers_is_followed_soon(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    recoverer, _ = a_recoverer(harness)
    monkeypatch.setattr(
        type(harness.backend),
        "recover_expired",
        lambda self, queues, limit: Recovery(ready=1_000, dead=0, next_expiry=0.0),
    )
    assert recoverer.recover() < 0.1


def test_finished_jobs_are_trimmed_when_retention_says_so() -> None:
    clock = ManualClock()
    harness = WorkerHarness(MemoryBackend(clock=clock, retention=Retention(succeeded=60.0)))
    job = harness.add()
    harness.backend.complete([Completion(lease=lease) for lease in harness.lease()])
    recoverer, _ = a_recoverer(harness)
    recoverer._next_trim = time.monotonic()
    recoverer.recover()
    assert harness.state(job.id) is JobState.SUCCEEDED
    clock.advance(61.0)
    recoverer._next_trim = time.monotonic()
    recoverer.recover()
    assert harness.state(job.id) is None


def test_jobs_are_trimmed_while_recovery_fails() -> None:
    """As beside a damaged queue, and perhaps for ever."""

    class NoRecovery(MemoryBackend):
        def _recover_expired(self, queues: Sequence[str], limit: int) -> Recovery:
            raise BackendError("a record is damaged")

    clock = ManualClock()
    harness = WorkerHarness(NoRecovery(clock=clock, retention=Retention(succeeded=60.0)))
    harness.add()
    harness.backend.complete([Completion(lease=lease) for lease in harness.lease()])
    clock.advance(61.0)
    recoverer, _ = a_recoverer(harness)
    recoverer._next_trim = time.monotonic()
    with pytest.raises(BackendError, match="damaged"):
        recoverer.recover()
    assert not any(harness.backend.stats([harness.queue])[0].counts.values())
