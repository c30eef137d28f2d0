"""A store that is away is waited for: nothing is lost, doubled, hammered or recovered too soon."""

from __future__ import annotations

import threading
import time

import pytest

from scheduler.errors import BackendError
from scheduler.jobs import Job
from scheduler.states import JobState
from scheduler.worker import JobContext
from worker.stand import SOON, Stand

METHODS = ["lease", "complete", "retry", "bury", "release", "renew", "promote_due", "recover_expired"]
SHORT = {"lease_duration": 1.0, "heartbeat_interval": 0.1, "recover_interval": 0.2}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_each_operation_may_fail_before_or_after_its_effect(stand: Stand, method: str, when: str) -> None:
    """For longer than a heartbeat; each job ends where it should, after one successful run."""

    def handler(job: Job, ctx: JobContext) -> None:
        stand.runs[job.id] += 1
        if stand.runs[job.id] == 1 and job.type == "fails once":
            raise ValueError

    worker = stand.worker(handler, concurrency=4, queue_buffer=1, **SHORT)
    worker.handle("fails once", handler)
    worker.handle("dies", lambda job, ctx: 1 / 0)
    jobs = stand.add_many(6)
    again = stand.add_many(3, type="fails once")
    dead = stand.add_many(3, type="dies", max_retries=0)
    delayed = stand.add(delay=0.05)
    getattr(stand.faults, when)(method, times=4)
    with worker:
        stand.until_finished(*(job.id for job in (*jobs, *again, *dead, delayed)))
    for job in (*jobs, delayed):
        assert (stand.state(job.id), stand.runs[job.id]) == (JobState.SUCCEEDED, 1)
    for job in again:
        assert (stand.state(job.id), stand.runs[job.id], stand.job(job.id).attempts) == (JobState.SUCCEEDED, 2, 2)
    for job in dead:
        assert (stand.state(job.id), len(stand.job(job.id).errors)) == (JobState.DEAD, 1)
    assert not [name for name, count in stand.watch.counts.items() if name.startswith("lost") and count]
    assert not stand.counts()[JobState.LEASED]


@pytest.mark.every_store
def test_a_deadline_is_heeded_while_a_renewal_waits_for_the_store(stand: Stand) -> None:
    cancelled = threading.Event()

    def handler(job: Job, ctx: JobContext) -> None:
        if ctx.cancelled.wait(SOON):
            cancelled.set()

    stand.add(timeout=0.5)
    gate = stand.faults.block("renew")
    with stand.worker(handler, timeout_grace=SOON, **SHORT):
        assert gate.entered.wait(SOON)
        assert cancelled.wait(SOON), "the renewal is still under way"
        gate.release()


@pytest.mark.every_store
def test_finished_work_is_offered_until_it_is_taken_and_counts_as_in_flight(stand: Stand) -> None:
    """Guarantee 6: it ends as succeeded, having run once, and pushes back on leasing meanwhile."""
    jobs = stand.add_many(10)
    stand.faults.before("complete", times=None)
    worker = stand.worker(stand.count_runs, concurrency=2, queue_buffer=1, **SHORT)
    with worker:
        stand.until(lambda: sum(stand.runs.values()) == 4)
        renewed = stand.faults.count("renew")
        assert stand.faults.wait_for("renew", calls=renewed + 15), "for longer than the lease"
        assert (worker.health.held, worker.health.leasing) == (4, False)
        assert sum(stand.runs.values()) == 4
        assert stand.counts()[JobState.LEASED] == 4
        stand.faults.clear()
        stand.until_finished(*(job.id for job in jobs))
    assert stand.runs == dict.fromkeys((job.id for job in jobs), 1)
    assert all(stand.job(job.id).attempts == 1 for job in jobs)


@pytest.mark.every_store
def test_the_whole_store_may_be_away_for_longer_than_a_lease(stand: Stand) -> None:
    """Guarantee 22: finished work is recorded once, no thread is lost, and nobody restarts anything."""
    begun, go = threading.Semaphore(0), threading.Event()

    def handler(job: Job, ctx: JobContext) -> None:
        stand.runs[job.id] += 1
        begun.release()
        go.wait(SOON)

    jobs = stand.add_many(2)
    worker = stand.worker(handler, concurrency=2, queue_buffer=0, **SHORT)
    with worker:
        for _ in range(2):
            assert begun.acquire(timeout=SOON)
        threads = threading.active_count()
        stand.faults.before(times=None)
        stand.until(lambda: worker.health.outage > 0.5)
        go.set()
        stand.until(lambda: worker.health.outage > 1.2)
        stand.faults.clear()
        more = stand.add_many(3)
        stand.until_finished(*(job.id for job in (*jobs, *more)))
        assert threading.active_count() == threads
    assert stand.runs == dict.fromkeys((job.id for job in (*jobs, *more)), 1)


def test_after_an_outage_holders_renew_before_anybody_recovers(stand: Stand) -> None:
    """Else recoverers race the holders: two workers, away for longer than a lease, keep what they hold."""
    begun, go = threading.Semaphore(0), threading.Event()

    def handler(job: Job, ctx: JobContext) -> None:
        stand.runs[job.id] += 1
        begun.release()
        go.wait(SOON)

    slow = {"lease_duration": 2.0, "heartbeat_interval": 0.2, "recover_interval": 0.1}
    jobs = stand.add_many(4)
    one = stand.worker(handler, concurrency=2, queue_buffer=0, **slow)
    two = stand.worker(handler, concurrency=2, queue_buffer=0, **slow)
    with one, two:
        for _ in range(4):
            assert begun.acquire(timeout=SOON)
        stand.faults.before(times=None)
        stand.until(lambda: min(one.health.outage, two.health.outage) > 2.2)
        stand.faults.clear()
        stand.until(lambda: one.health.outage == two.health.outage == 0.0)
        renewed = stand.watch.counts["renewed"]
        stand.until(lambda: stand.watch.counts["renewed"] >= renewed + 8)
        go.set()
        stand.until_finished(*(job.id for job in jobs))
    assert stand.runs == dict.fromkeys((job.id for job in jobs), 1)
    assert not stand.watch.counts["recovered.ready"]


def test_a_worker_that_has_just_started_recovers_nothing(stand: Stand) -> None:
    stand.add()
    stand.lease(duration=0.001)
    worker = stand.worker(stand.count_runs, lease_duration=SOON, heartbeat_interval=SOON / 3, recover_interval=0.01)
    with worker:
        assert stand.faults.wait_for("lease", calls=10)
        assert stand.faults.count("recover_expired") == 0


def test_a_worker_that_runs_for_a_while_does(stand: Stand) -> None:
    job = stand.add()
    stand.lease(duration=0.001)
    with stand.worker(stand.count_runs, lease_duration=0.2, heartbeat_interval=0.05, recover_interval=0.05):
        stand.until_finished(job.id)
    assert (stand.job(job.id).crashes, stand.job(job.id).attempts) == (1, 2)


def test_a_store_that_is_away_is_asked_with_back_off(stand: Stand) -> None:
    """No busy loop: few calls, though jobs end and enqueues ring meanwhile."""
    go = threading.Event()
    stand.add_many(8)
    worker = stand.worker(
        lambda job, ctx: go.wait(SOON), concurrency=8, queue_buffer=0, lease_duration=30.0, heartbeat_interval=10.0
    )
    with worker:
        stand.until(lambda: worker.health.held == 8)
        stand.faults.before(times=None)
        before = stand.faults.count()
        began = time.monotonic()
        go.set()
        for _ in range(150):
            stand.backend.wrapped.enqueue([stand.new()])
            threading.Event().wait(0.01)
        calls, took = stand.faults.count() - before, time.monotonic() - began
        stand.faults.clear()
        stand.until_finished()
    # pump, promoter and wake-ups: after 0.1, 0.2, 0.4, 0.8 s and so on, less up to half. The promoter is rung by news.
    assert calls < 40 + 10 * took, f"{calls} calls in {took:.1f} s"


def test_an_outage_is_logged_in_few_lines(stand: Stand, caplog: pytest.LogCaptureFixture) -> None:
    worker = stand.worker(stand.count_runs, poll_interval=0.001)
    with worker:
        stand.faults.before(times=None)
        failed = sum(count for name, count in stand.watch.counts.items() if name.startswith("call_failed"))
        stand.until(
            lambda: (
                sum(count for name, count in stand.watch.counts.items() if name.startswith("call_failed"))
                >= failed + 10
            )
        )
        stand.faults.clear()
        stand.until_finished(stand.add().id)
    assert caplog.text.count("will be asked again") <= 2
    assert "answers again" in caplog.text or worker.health.outage == 0.0


def test_an_error_of_the_store_that_is_no_outage_is_waited_out_too(stand: Stand) -> None:
    stand.faults.before("lease", "complete", times=3, error=lambda: BackendError("out of memory"))
    job = stand.add()
    with stand.worker(stand.count_runs):
        stand.until_finished(job.id)


@pytest.mark.every_store
def test_one_loops_wait_does_not_delay_the_heartbeat(stand: Stand) -> None:
    """Guarantee 29: promote, recover, lease and complete hang; leases are renewed all the while."""
    go = threading.Event()
    job = stand.add()
    worker = stand.worker(lambda job, ctx: go.wait(SOON), **SHORT)
    with worker:
        stand.until(lambda: worker.health.held == 1)
        stand.faults.block("lease", "promote_due", "recover_expired", "complete", times=None)
        renewed = stand.faults.count("renew")
        assert stand.faults.wait_for("renew", calls=renewed + 20)
        assert stand.state(job.id) is JobState.LEASED
        assert stand.backend.wrapped.recover_expired([stand.queue], 10).ready == 0
        stand.faults.clear()
        go.set()
        stand.until_finished(job.id)
    assert stand.job(job.id).attempts == 1
