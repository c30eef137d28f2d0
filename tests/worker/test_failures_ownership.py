"""What must never happen: who holds a job, and who does not any more (guarantees 1, 2, 3, 9)."""

from __future__ import annotations

import threading

import pytest

from scheduler.jobs import Job
from scheduler.leases import Completion, Failure
from scheduler.retry import RetryPolicy
from scheduler.states import JobState
from scheduler.worker import JobContext
from worker.harness import SOON, WorkerHarness

pytestmark = pytest.mark.every_store

SHORT = {"lease_duration": 0.5, "heartbeat_interval": 0.1, "recover_interval": 0.1, "poll_interval": 0.02}


def test_a_new_worker_of_the_same_name_keeps_nothing_alive_that_an_earlier_one_held(harness: WorkerHarness) -> None:
    """Guarantee 1: ownership belongs to one lease, not to a worker's name."""
    job = harness.add()
    (dead,) = harness.lease(duration=0.5, worker_id="w1")
    with harness.worker(harness.count_runs, worker_id="w1", **SHORT):
        done = harness.until_state(job.id, JobState.SUCCEEDED)
    assert (done.attempts, done.crashes, harness.runs[job.id]) == (2, 1, 1)
    assert list(harness.backend.complete([Completion(lease=dead)])) == [dead]


def test_a_stale_holder_changes_nothing_and_is_refused(harness: WorkerHarness) -> None:
    """Guarantee 2: neither by complete nor by retry, bury, release or renew."""
    begun, go = threading.Event(), threading.Event()

    def handler(job: Job, ctx: JobContext) -> str:
        begun.set()
        go.wait(SOON)
        return "of the holder"

    job = harness.add()
    (stale,) = harness.lease(duration=0.01)
    with harness.worker(handler, **SHORT):
        assert begun.wait(SOON)
        held = harness.job(job.id)
        backend = harness.backend.wrapped
        assert list(backend.complete([Completion(lease=stale, result=b"stale")])) == [stale]
        assert list(backend.retry([Failure(lease=stale)])) == [stale]
        assert list(backend.bury([Failure(lease=stale)])) == [stale]
        assert list(backend.release([stale])) == [stale]
        assert list(backend.renew([stale], 30.0).refused) == [stale]
        now = harness.job(job.id)
        assert (now.state, now.attempts, now.lease_owner) == (held.state, held.attempts, held.lease_owner)
        go.set()
        harness.until_finished(job.id)
    done = harness.job(job.id)
    assert (done.state, done.attempts, done.result) == (JobState.SUCCEEDED, 2, b'"of the holder"')


def test_a_worker_that_lost_a_lease_cancels_its_handler_and_drops_the_outcome(harness: WorkerHarness) -> None:
    """Guarantee 2, from the loser's side."""
    reasons: list[str | None] = []
    begun = threading.Event()

    def handler(job: Job, ctx: JobContext) -> str:
        begun.set()
        ctx.cancelled.wait(SOON)
        reasons.append(ctx.reason)
        return "of the loser"

    job = harness.add()
    worker = harness.worker(handler, concurrency=1, **SHORT)
    with worker:
        assert begun.wait(SOON)
        held = worker._lifecycle.inflight.renewable() if worker._lifecycle else []
        harness.backend.pause(harness.queue)  # so that this worker does not take it again
        assert not harness.backend.wrapped.release(held)
        harness.until(lambda: reasons)
        harness.until(lambda: worker.health.held == 0)
        assert harness.state(job.id) is JobState.READY
    assert reasons == ["lease lost"]
    assert harness.watch.counts["lost.renew"] == 1
    assert harness.job(job.id).result is None


def test_jobs_that_wait_in_the_buffer_are_renewed_too(harness: WorkerHarness) -> None:
    """Guarantee 3: five jobs of three leases' length each, on one thread, beside an idle worker: each runs once."""
    jobs = harness.add_many(5)
    begun = threading.Event()

    def slow(job: Job, ctx: JobContext) -> None:
        harness.runs[job.id] += 1
        begun.set()
        ctx.cancelled.wait(0.45)

    first = harness.worker(slow, concurrency=1, queue_buffer=4, **{**SHORT, "lease_duration": 0.3})
    second = harness.worker(harness.count_runs, **{**SHORT, "lease_duration": 0.3})
    harness.backend.pause(harness.queue)
    with second, first:
        # What has waited for a whole lease is given back, and the idle worker may take it: no attempt is used.
        harness.backend.resume(harness.queue)
        harness.until_finished(*(job.id for job in jobs))
    assert harness.runs == dict.fromkeys((job.id for job in jobs), 1)
    assert all((harness.job(job.id).attempts, harness.job(job.id).crashes) == (1, 0) for job in jobs)


@pytest.mark.parametrize("state", ["scheduled", "leased", "retry_wait", "succeeded", "dead"])
def test_enqueueing_an_id_that_exists_changes_nothing_for_the_worker_that_runs_it(
    harness: WorkerHarness, state: str
) -> None:
    """Guarantee 9: it says "already there", and the job is run as often as it would have been."""
    begun, go = threading.Event(), threading.Event()

    def handler(job: Job, ctx: JobContext) -> bytes:
        harness.runs[job.id] += 1
        begun.set()
        if state == "leased":
            go.wait(SOON)
        if state in ("retry_wait", "dead"):
            raise ValueError
        return job.payload

    delay = 3_600.0 if state == "scheduled" else None
    job = harness.add(payload=b"first", delay=delay, max_retries=0 if state == "dead" else 1)
    with harness.worker(handler, retry_policy=RetryPolicy.fixed(3_600.0)):
        harness.until_state(job.id, JobState(state))
        if state == "leased":
            assert begun.wait(SOON)
        before = harness.job(job.id)
        (answer,) = harness.backend.wrapped.enqueue([harness.new(id=job.id, payload=b"second", max_retries=9)])
        assert not answer.is_new
        assert answer.job == before == harness.job(job.id)
        if state == "leased":
            go.set()
            assert harness.until_state(job.id, JobState.SUCCEEDED).payload == b"first"
    assert harness.runs[job.id] == (0 if state == "scheduled" else 1)
