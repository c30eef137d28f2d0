"""Tests of `drain`."""

from __future__ import annotations

import threading

import pytest

from examples.own_backend import DictBackend
from scheduler import Discard, JobState, NewJob, Producer, Retention, Retry, RetryPolicy, Snooze, Worker, WorkerConfig
from scheduler.errors import ConfigError
from scheduler.testing import Drained, ManualClock, drain
from scheduler_backends.memory import MemoryBackend


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=[DictBackend, MemoryBackend])
def backend(request, clock):
    return request.param(clock=clock, retention=Retention(succeeded=60.0))


def test_it_runs_what_is_due_on_this_thread_and_records_it(backend, clock) -> None:
    producer = Producer(backend)
    ran = []
    handlers = {"add": lambda job, ctx: ran.append((ctx.data, threading.current_thread())) or sum(ctx.data)}
    now = producer.enqueue("add", [1, 2]).job
    later = producer.enqueue("add", [3, 4], delay=10.0).job
    assert drain(backend, handlers) == Drained(succeeded=1)
    assert ran == [([1, 2], threading.current_thread())]
    done = producer.get("default", now.id)
    assert (done.state, done.result) == (JobState.SUCCEEDED, b"3")
    assert producer.get("default", later.id).state is JobState.SCHEDULED
    clock.advance(10.0)
    assert drain(backend, handlers).succeeded == 1
    assert drain(backend, handlers) == Drained()


def test_every_verdict_is_recorded_and_counted(backend, clock) -> None:
    def fail(job, ctx):
        raise ValueError("broken")

    def retry(job, ctx):
        raise Retry("busy", delay=5.0)

    def snooze(job, ctx):
        raise Snooze(5.0)

    def discard(job, ctx):
        raise Discard("never")

    backend.enqueue([NewJob(type=name, id=name) for name in ("fail", "retry", "snooze", "discard", "unknown")])
    backend.enqueue([NewJob(type="fail", id="last", max_retries=0)])
    drained = drain(backend, {"fail": fail, "retry": retry, "snooze": snooze, "discard": discard})
    assert (drained.retried, drained.put_back, drained.dead, drained.runs) == (2, 2, 2, 6)
    assert sorted(error.kind for error in drained.errors) == [
        "Discard",
        "Retry",
        "UnknownTypeWaiting",
        "ValueError",
        "ValueError",
    ]
    jobs = backend.get("default", ["fail", "retry", "snooze", "discard", "unknown", "last"])
    states = {id: (job.state, job.attempts) for id, job in jobs.items()}
    assert states == {
        "fail": (JobState.RETRY_WAIT, 1),
        "retry": (JobState.RETRY_WAIT, 1),
        "snooze": (JobState.RETRY_WAIT, 0),
        "discard": (JobState.DEAD, 1),
        "unknown": (JobState.RETRY_WAIT, 0),
        "last": (JobState.DEAD, 1),
    }


def test_a_job_fails_its_way_to_the_end_as_the_clock_is_moved(backend, clock) -> None:
    def fail(job, ctx):
        raise ValueError(f"attempt {job.attempts}")

    Producer(backend).enqueue("fail", max_retries=2, retry_policy=RetryPolicy.fixed(10.0))
    ends = []
    for _ in range(4):
        drained = drain(backend, {"fail": fail})
        ends.append((drained.retried, drained.dead))
        clock.advance(10.0)
    assert ends == [(1, 0), (1, 0), (0, 1), (0, 0)]


def test_what_handlers_enqueue_is_run_too_and_the_limit_ends_an_endless_chain(backend) -> None:
    producer = Producer(backend)

    def chain(job, ctx):
        producer.enqueue("chain", ctx.data + 1)

    producer.enqueue("chain", 0)
    assert drain(backend, {"chain": chain}, limit=25) == Drained(succeeded=25)
    assert drain(backend, {"chain": chain}, limit=1) == Drained(succeeded=1)


def test_a_worker_s_handlers_queues_and_policy_are_used(backend) -> None:
    worker = Worker(backend, WorkerConfig(queues=("mail",), retry_policy=RetryPolicy.fixed(77.0), worker_id="me"))

    @worker.handler("mail.send")
    def send(job, ctx):
        assert job.lease_owner == "me"
        raise ConnectionError

    producer = Producer(backend)
    job = producer.enqueue("mail.send", queue="mail").job
    producer.enqueue("mail.send", queue="other")
    assert drain(backend, worker).retried == 1
    failed = producer.get("mail", job.id)
    assert (failed.due_at - failed.last_error.at).total_seconds() == pytest.approx(77.0, abs=0.01)
    assert drain(backend, worker, queues=["other"]).retried == 1


def test_functions_alone_serve_every_queue_known(backend) -> None:
    backend.enqueue([NewJob(type="a", queue=queue) for queue in ("one", "two", "three")])
    assert drain(backend, {"a": lambda job, ctx: None}).succeeded == 3
    backend.enqueue([NewJob(type="a", queue=queue) for queue in ("one", "two", "three")])
    assert drain(backend, {"a": lambda job, ctx: None}, queues=["two"]).succeeded == 1


def test_an_empty_store_is_drained_at_once(backend) -> None:
    assert drain(backend, {}) == Drained()
    with pytest.raises(ConfigError):
        drain(backend, {}, limit=0)


def test_a_run_whose_job_was_lost_meanwhile_is_told_of(backend, clock) -> None:
    def slow(job, ctx):
        clock.advance(3_600.0)
        assert backend.recover_expired(["default"], 10).ready == 1
        backend.cancel("default", [job.id])

    backend.enqueue([NewJob(type="slow")])
    assert drain(backend, {"slow": slow}) == Drained(lost=1)


def test_system_exit_in_a_handler_is_a_failure_like_any_other(backend) -> None:
    def leave(job, ctx):
        raise SystemExit(3)

    backend.enqueue([NewJob(type="leave")])
    drained = drain(backend, {"leave": leave})
    assert (drained.retried, drained.errors[0].kind) == (1, "SystemExit")


@pytest.mark.parametrize("handlers", [None, [], 5, "job", Worker], ids=str)
def test_what_has_no_handlers_is_refused(backend, handlers) -> None:
    with pytest.raises(ConfigError) as refusal:
        drain(backend, handlers)
    assert refusal.value.field == "handlers"
