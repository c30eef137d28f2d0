"""A store that is away is waited for: nothing is lost, doubled, hammered or recovered too soon."""

from __future__ import annotations

import threading
import time

import pytest

from scheduler.errors import BackendError
from scheduler.jobs import Job
from scheduler.states import JobState
from scheduler.worker import JobContext
from worker.harness import SOON, WorkerHarness

METHODS = ["lease", "complete", "retry", "bury", "release", "renew", "promote_due", "recover_expired"]
SHORT = {"lease_duration": 1.0, "heartbeat_interval": 0.1, "recover_interval": 0.2}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_each_operation_may_fail_before_or_after_its_effect(harness: WorkerHarness, method: str, when: str) -> None:
    """For longer than a heartbeat; each job ends where it should, after one successful run."""

    def handler(job: Job, ctx: JobContext) -> None:
        harness.runs[job.id] += 1
        if harness.runs[job.id] == 1 and job.type == "fails once":
            raise ValueError

    worker = harness.worker(handler, concurrency=4, queue_buffer=1, **SHORT)
    worker.handle("fails once", handler)
    worker.handle("dies", lambda job, ctx: 1 / 0)
    jobs = harness.add_many(6)
    again = harness.add_many(3, type="fails once")
    dead = harness.add_many(3, type="dies", max_retries=0)
    delayed = harness.add(delay=0.05)
    getattr(harness.faults, when)(method, times=4)
    with worker:
        harness.until_finished(*(job.id for job in (*jobs, *again, *dead, delayed)))
    for job in (*jobs, delayed):
        assert (harness.state(job.id), harness.runs[job.id]) == (JobState.SUCCEEDED, 1)
    for job in again:
        assert (harness.state(job.id), harness.runs[job.id], harness.job(job.id).attempts) == (JobState.SUCCEEDED, 2, 2)
    for job in dead:
        assert (harness.state(job.id), len(harness.job(job.id).errors)) == (JobState.DEAD, 1)
    assert not [name for name, count in harness.watch.counts.items() if name.startswith("lost") and count]
    assert not harness.counts()[JobState.LEASED]


@pytest.mark.every_store
def test_a_deadline_is_heeded_while_a_renewal_waits_for_the_store(harness: WorkerHarness) -> None:
    cancelled = threading.Event()

    def handler(job: Job, ctx: JobContext) -> None:
        if ctx.cancelled.wait(SOON):
            cancelled.set()

    harness.add(timeout=0.5)
    gate = harness.faults.block("renew")
    with harness.worker(handler, timeout_grace=SOON, **SHORT):
        assert gate.entered.wait(SOON)
        assert cancelled.wait(SOON), "the renewal is still under way"
        gate.release()


@pytest.mark.every_store
def test_finished_work_is_offered_until_it_is_taken_and_counts_as_in_flight(harness: WorkerHarness) -> None:
    """Guarantee 6: it ends as succeeded, having run once, and pushes back on leasing meanwhile."""
    jobs = harness.add_many(10)
    harness.faults.before("complete", times=None)
    worker = harness.worker(harness.count_runs, concurrency=2, queue_buffer=1, **SHORT)
    with worker:
        harness.until(lambda: sum(harness.runs.values()) == 4)
        renewed = harness.faults.count("renew")
        assert harness.faults.wait_for("renew", calls=renewed + 15), "for longer than the lease"
        assert (worker.health.held, worker.health.leasing) == (4, False)
        assert sum(harness.runs.values()) == 4
        assert harness.counts()[JobState.LEASED] == 4
        harness.faults.clear()
        harness.until_finished(*(job.id for job in jobs))
    assert harness.runs == dict.fromkeys((job.id for job in jobs), 1)
    assert all(harness.job(job.id).attempts == 1 for job in jobs)


@pytest.mark.every_store
def test_the_whole_store_may_be_away_for_longer_than_a_lease(harness: WorkerHarness) -> None:
    """Guarantee 22: finished work is recorded once, no thread is lost, and nobody restarts anything."""
    begun, go = threading.Semaphore(0), threading.Event()

    def handler(job: Job, ctx: JobContext) -> None:
        harness.runs[job.id] += 1
        begun.release()
        go.wait(SOON)

    jobs = harness.add_many(2)
    worker = harness.worker(handler, concurrency=2, queue_buffer=0, **SHORT)
    with worker:
        for _ in range(2):
            assert begun.acquire(timeout=SOON)
        threads = threading.active_count()
        harness.faults.before(times=None)
        harness.until(lambda: worker.health.outage > 0.5)
        go.set()
        harness.until(lambda: worker.health.outage > 1.2)
        harness.faults.clear()
        more = harness.add_many(3)
        harness.until_finished(*(job.id for job in (*jobs, *more)))
        assert threading.active_count() == threads
    assert harness.runs == dict.fromkeys((job.id for job in (*jobs, *more)), 1)


def test_after_an_outage_holders_renew_before_anybody_recovers(harness: WorkerHarness) -> None:
    """Else recoverers race the holders: two workers, away for longer than a lease, keep what they hold."""
    begun, go = threading.Semaphore(0), threading.Event()

    def handler(job: Job, ctx: JobContext) -> None:
        harness.runs[job.id] += 1
        begun.release()
        go.wait(SOON)

    slow = {"lease_duration": 2.0, "heartbeat_interval": 0.2, "recover_interval": 0.1}
    jobs = harness.add_many(4)
    one = harness.worker(handler, concurrency=2, queue_buffer=0, **slow)
    two = harness.worker(handler, concurrency=2, queue_buffer=0, **slow)
    with one, two:
        for _ in range(4):
            assert begun.acquire(timeout=SOON)
        harness.faults.before(times=None)
        harness.until(lambda: min(one.health.outage, two.health.outage) > 2.2)
        harness.faults.clear()
        harness.until(lambda: one.health.outage == two.health.outage == 0.0)
        renewed = harness.watch.counts["renewed"]
        harness.until(lambda: harness.watch.counts["renewed"] >= renewed + 8)
        go.set()
        harness.until_finished(*(job.id for job in jobs))
    assert harness.runs == dict.fromkeys((job.id for job in jobs), 1)
    assert not harness.watch.counts["recovered.ready"]


def test_a_worker_that_has_just_started_recovers_nothing(harness: WorkerHarness) -> None:
    harness.add()
    harness.lease(duration=0.001)
    worker = harness.worker(harness.count_runs, lease_duration=SOON, heartbeat_interval=SOON / 3, recover_interval=0.01)
    with worker:
        assert harness.faults.wait_for("lease", calls=10)
        assert harness.faults.count("recover_expired") == 0


def test_a_worker_that_runs_for_a_while_does(harness: WorkerHarness) -> None:
    job = harness.add()
    harness.lease(duration=0.001)
    with harness.worker(harness.count_runs, lease_duration=0.2, heartbeat_interval=0.05, recover_interval=0.05):
        harness.until_finished(job.id)
    assert (harness.job(job.id).crashes, harness.job(job.id).attempts) == (1, 2)


def test_a_store_that_is_away_is_asked_with_back_off(harness: WorkerHarness) -> None:
    """No busy loop: few calls, though jobs end and enqueues wake it meanwhile."""
    go = threading.Event()
    harness.add_many(8)
    worker = harness.worker(
        lambda job, ctx: go.wait(SOON), concurrency=8, queue_buffer=0, lease_duration=30.0, heartbeat_interval=10.0
    )
    with worker:
        harness.until(lambda: worker.health.held == 8)
        harness.faults.before(times=None)
        before = harness.faults.count()
        began = time.monotonic()
        go.set()
        for _ in range(150):
            harness.backend.wrapped.enqueue([harness.new()])
            threading.Event().wait(0.01)
        calls, took = harness.faults.count() - before, time.monotonic() - began
        harness.faults.clear()
        harness.until_finished()
    # pump, promoter and wake-ups: after 0.1, 0.2, 0.4, 0.8 s and so on, less up to half. Wake-ups do not shorten them.
    assert calls < 40 + 10 * took, f"{calls} calls in {took:.1f} s"


def test_an_outage_is_logged_in_few_lines(harness: WorkerHarness, caplog: pytest.LogCaptureFixture) -> None:
    worker = harness.worker(harness.count_runs, poll_interval=0.001)
    with worker:
        harness.faults.before(times=None)
        failed = sum(count for name, count in harness.watch.counts.items() if name.startswith("call_failed"))
        harness.until(
            lambda: (
                sum(count for name, count in harness.watch.counts.items() if name.startswith("call_failed"))
                >= failed + 10
            )
        )
        harness.faults.clear()
        harness.until_finished(harness.add().id)
    assert caplog.text.count("will be repeated") <= 2
    assert "available again" in caplog.text or worker.health.outage == 0.0


def test_an_error_of_the_store_that_is_no_outage_is_waited_out_too(harness: WorkerHarness) -> None:
    harness.faults.before("lease", "complete", times=3, error=lambda: BackendError("out of memory"))
    job = harness.add()
    with harness.worker(harness.count_runs):
        harness.until_finished(job.id)


@pytest.mark.every_store
def test_one_loops_wait_does_not_delay_the_heartbeat(harness: WorkerHarness) -> None:
    """Guarantee 29: promote, recover, lease and complete hang; leases are renewed all the while."""
    go = threading.Event()
    job = harness.add()
    worker = harness.worker(lambda job, ctx: go.wait(SOON), **SHORT)
    with worker:
        harness.until(lambda: worker.health.held == 1)
        harness.faults.block("lease", "promote_due", "recover_expired", "complete", times=None)
        renewed = harness.faults.count("renew")
        assert harness.faults.wait_for("renew", calls=renewed + 20)
        assert harness.state(job.id) is JobState.LEASED
        assert harness.backend.wrapped.recover_expired([harness.queue], 10).ready == 0
        harness.faults.clear()
        go.set()
        harness.until_finished(job.id)
    assert harness.job(job.id).attempts == 1
