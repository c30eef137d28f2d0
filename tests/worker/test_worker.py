"""A worker as a program uses it: what it is made of, how it runs, and what becomes of its jobs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import pytest

import scheduler
from scheduler.abilities import Wakeups
from scheduler.config import WorkerConfig
from scheduler.errors import ConfigError, Discard, DuplicateHandler, InvalidHandler, Retry, SchedulerError, Snooze
from scheduler.jobs import Job
from scheduler.metrics import CountingMetrics
from scheduler.queues import Retention
from scheduler.retry import RetryPolicy
from scheduler.serializers import JsonSerializer
from scheduler.states import JobState
from scheduler.worker import Health, JobContext, Report, Worker, current_job
from scheduler.worker.handlers import HandlerFunction
from scheduler_backends.memory import MemoryBackend
from worker.harness import SOON, WorkerHarness

# ---- what it is made of


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("backend", {"backend": "memory://"}),
        ("backend", {"backend": MemoryBackend}),
        ("config", {"config": WorkerConfig}),
        ("config", {"config": {"concurrency": 3}}),
        ("serializer", {"serializer": "json"}),
        ("serializer", {"serializer": JsonSerializer}),
        ("logger", {"logger": 5}),
        ("metrics", {"metrics": print}),
    ],
)
def test_what_is_no_part_of_a_worker_is_refused_by_name(field: str, arguments: dict[str, object]) -> None:
    with pytest.raises(ConfigError) as raised:
        Worker(**{"backend": MemoryBackend(), **arguments})  # type: ignore[arg-type]  # as a user may
    assert raised.value.field == field


def test_registration_works_as_decorator_and_as_call_and_leaves_the_function_as_it_is() -> None:
    worker = Worker(MemoryBackend())

    @worker.handler("a")
    def handler(job: Job, ctx: JobContext) -> str:
        return "plain"

    worker.handle("b", handler)
    assert handler.__name__ == "handler"
    with pytest.raises(DuplicateHandler):
        worker.handler("a")(handler)
    with pytest.raises(InvalidHandler):
        worker.handle("c", lambda job: None)  # type: ignore[arg-type, misc]  # as a user may


def test_with_config_changes_the_given_fields_and_nothing_else() -> None:
    metrics = CountingMetrics()
    worker = Worker(MemoryBackend(), WorkerConfig(concurrency=3, queues=("a",)), metrics=metrics)
    worker.handle("x", print)
    other = worker.with_config(concurrency=5)
    assert (other.config.concurrency, other.config.queues, worker.config.concurrency) == (5, ("a",), 3)
    assert (other.backend, other.metrics) == (worker.backend, metrics)
    with pytest.raises(DuplicateHandler):
        other.handle("x", print)


@pytest.mark.parametrize(
    ("field", "changes"),
    [("threads", {"queues": ("a",), "threads": 3}), ("concurrency", {"queues": ("a",), "concurrency": 0})],
)
def test_with_config_names_the_field_at_fault(field: str, changes: dict[str, object]) -> None:
    with pytest.raises(ConfigError) as raised:
        Worker(MemoryBackend()).with_config(**changes)
    assert raised.value.field == field


@pytest.mark.parametrize("given", [lambda job, ctx: None, None, 7, b"work"])
def test_the_decorator_without_a_job_type_is_refused_at_once(given: object) -> None:
    """Else it would register nothing, and the jobs would wait for a day and die."""
    with pytest.raises(InvalidHandler, match=r'@worker\.handler\("email\.send"\)') as raised:
        Worker(MemoryBackend()).handler(given)  # type: ignore[arg-type]  # what the test is about
    assert isinstance(raised.value, TypeError)


def test_a_worker_says_at_its_start_what_it_serves(harness: WorkerHarness, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "scheduler.worker")
    worker = harness.worker(worker_id="w1", concurrency=3)
    for name in ["b", "a\u202e", *(f"type.{number}" for number in range(30))]:
        worker.handle(name, lambda job, ctx: None)
    with worker:
        pass
    (message,) = (text for text in caplog.messages if text.startswith("Worker w1 started"))
    assert f"queues {harness.queue}; 3 threads; job types a\\u202e, b, type.0, " in message
    assert "and 12 more" in message
    assert repr(worker.backend) in message
    assert message.endswith(f"version {scheduler.__version__}")
    assert "\n" not in message


def test_a_worker_without_handlers_says_so(harness: WorkerHarness, caplog: pytest.LogCaptureFixture) -> None:
    with harness.worker():
        pass
    assert "no handlers" in caplog.text


# ---- running


def test_jobs_of_all_kinds_end_as_their_handlers_say(harness: WorkerHarness) -> None:
    worker = harness.worker()
    tries: list[str] = []

    def flaky(job: Job, ctx: JobContext) -> None:
        tries.append(job.id)
        if job.attempts < 3:
            raise ConnectionError

    def raising(error: BaseException) -> Callable[[Job, JobContext], None]:
        def handler(job: Job, ctx: JobContext) -> None:
            raise error

        return handler

    def snoozing(job: Job, ctx: JobContext) -> None:
        tries.append(job.id)
        if tries.count(job.id) < 3:
            raise Snooze(0.001)

    worker.handle("fine", lambda job, ctx: None)
    worker.handle("flaky", flaky)
    worker.handle("failing", raising(ValueError("never")))
    worker.handle("discarded", raising(Discard("no")))
    worker.handle("retried", raising(Retry(delay=0.001)))
    worker.handle("snoozing", snoozing)
    ids = {
        kind: harness.add(type=kind, max_retries=2).id for kind in ("fine", "flaky", "failing", "discarded", "retried")
    }
    ids["snoozing"] = harness.add(type="snoozing", max_retries=0).id
    with worker:
        harness.until_finished(*ids.values())
    ended = {kind: harness.job(id) for kind, id in ids.items()}
    assert {kind: (job.state, job.attempts) for kind, job in ended.items()} == {
        "fine": (JobState.SUCCEEDED, 1),
        "flaky": (JobState.SUCCEEDED, 3),
        "failing": (JobState.DEAD, 3),
        "discarded": (JobState.DEAD, 1),
        "retried": (JobState.DEAD, 3),
        "snoozing": (JobState.SUCCEEDED, 1),
    }
    assert [error.kind for error in ended["failing"].errors] == ["ValueError"] * 3
    assert [error.attempt for error in ended["failing"].errors] == [1, 2, 3]
    assert ended["discarded"].last_error is not None
    assert ended["discarded"].last_error.message == "no"
    assert ended["snoozing"].errors == ()


def test_a_delayed_job_runs_when_it_is_due(harness: WorkerHarness) -> None:
    began = time.monotonic()
    job = harness.add(delay=0.3)
    with harness.worker(harness.count_runs, poll_interval=3_600.0):
        harness.until_finished(job.id)
    assert time.monotonic() - began >= 0.3


def test_a_job_enqueued_while_the_worker_sleeps_is_run_without_waiting_for_a_poll(harness: WorkerHarness) -> None:
    if not isinstance(harness.backend, Wakeups):
        pytest.skip("the store has no wake-ups")
    with harness.worker(harness.count_runs, poll_interval=3_600.0):
        harness.faults.wait_for("wait")
        for _ in range(5):
            harness.until_finished(harness.add().id)


def _returning(result: object) -> HandlerFunction:
    return lambda job, ctx: result


def test_results_are_kept_under_retention_and_dropped_where_they_cannot_be(
    harness: WorkerHarness, caplog: pytest.LogCaptureFixture
) -> None:
    results: dict[str, object] = {"good": {"n": 1}, "bad": object(), "large": "x" * 300_000, "none": None}
    worker = harness.worker()
    for kind, result in results.items():
        worker.handle(kind, _returning(result))
    jobs = {kind: harness.add(type=kind).id for kind in results}
    with worker:
        harness.until_finished(*jobs.values())
    assert {kind: harness.job(id).result for kind, id in jobs.items()} == {
        "good": b'{"n":1}',
        "bad": None,
        "large": None,
        "none": None,
    }
    assert caplog.text.count("is dropped") == 2


def test_no_result_is_encoded_for_a_store_that_keeps_none(bare: WorkerHarness) -> None:
    class Encodes(JsonSerializer):
        def dumps(self, value: object) -> bytes:
            raise AssertionError("encoded in vain")

    job = bare.add()
    with bare.worker(lambda job, ctx: 1, serializer=Encodes()):
        bare.until(lambda: bare.find(job.id) is None)


def test_a_payload_that_cannot_be_decoded_fails_the_job_that_asks_for_it(harness: WorkerHarness) -> None:
    asks, does_not = harness.add(type="asks", payload=b"\xff", max_retries=0), harness.add(payload=b"\xff")
    worker = harness.worker(lambda job, ctx: None)
    worker.handle("asks", lambda job, ctx: ctx.data)
    with worker:
        harness.until_finished(asks.id, does_not.id)
    assert (harness.state(asks.id), harness.state(does_not.id)) == (JobState.DEAD, JobState.SUCCEEDED)


@pytest.mark.every_store
def test_payloads_reach_the_handler_byte_for_byte(harness: WorkerHarness) -> None:
    """Guarantee 19: all 256 values, and none at all."""
    payloads = [bytes(range(256)), b"", b"\x00"]
    seen: list[bytes] = []
    jobs = [harness.add(payload=payload) for payload in payloads]
    with harness.worker(lambda job, ctx: seen.append(job.payload)):
        harness.until_finished(*(job.id for job in jobs))
    assert sorted(seen) == sorted(payloads)
    assert [harness.job(job.id).payload for job in jobs] == payloads


def test_handlers_run_side_by_side_and_never_more_than_concurrency(harness: WorkerHarness) -> None:
    now, most, lock = 0, 0, threading.Lock()
    all_there = threading.Barrier(4)

    def handler(job: Job, ctx: JobContext) -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        all_there.wait(SOON)
        with lock:
            now -= 1

    jobs = harness.add_many(16)
    with harness.worker(handler, concurrency=4, queue_buffer=3):
        harness.until_finished(*(job.id for job in jobs))
    assert most == 4


def test_every_job_has_a_context_of_its_own_and_knows_itself(harness: WorkerHarness) -> None:
    seen: dict[str, Job | None] = {}
    jobs = harness.add_many(20)

    def handler(job: Job, ctx: JobContext) -> None:
        seen[job.id] = current_job()

    with harness.worker(handler):
        harness.until_finished(*(job.id for job in jobs))
    assert {id: job and job.id for id, job in seen.items()} == {job.id: job.id for job in jobs}


def test_queues_are_consumed_in_turn(harness: WorkerHarness) -> None:
    """A long queue does not keep a short one waiting."""
    other = harness.queue + "-other"
    many = harness.add_many(200)
    few = [harness.add(queue=other) for _ in range(3)]
    done: list[str] = []
    with harness.worker(
        lambda job, ctx: done.append(job.queue),
        queues=(harness.queue, other),
        concurrency=1,
        batch_size=2,
        queue_buffer=1,
    ):
        harness.until_finished(*(job.id for job in many))
    last = max(index for index, queue in enumerate(done) if queue == other)
    assert done.count(other) == len(few)
    assert last < 20


def test_a_paused_queue_waits_and_goes_on_when_resumed(harness: WorkerHarness) -> None:
    harness.backend.pause(harness.queue)
    job = harness.add()
    with harness.worker(harness.count_runs):
        asked = harness.faults.count("lease")
        assert harness.faults.wait_for("lease", calls=asked + 3)
        assert harness.state(job.id) is JobState.READY
        harness.backend.resume(harness.queue)
        harness.until_finished(job.id)


# ---- one run, and the next


def test_run_reports_what_it_did(harness: WorkerHarness) -> None:
    jobs = harness.add_many(5)
    worker = harness.worker(harness.count_runs)
    reports: list[Report] = []
    thread = threading.Thread(target=lambda: reports.append(worker.run()))
    thread.start()
    harness.until_finished(*(job.id for job in jobs))
    assert worker.stop()
    thread.join(SOON)
    assert reports == [Report(settled=5, released=0, abandoned=0)]


def test_one_worker_runs_once_at_a_time(harness: WorkerHarness) -> None:
    worker = harness.worker(harness.count_runs)
    with worker:
        with pytest.raises(SchedulerError, match="already running"):
            worker.run()
        with pytest.raises(SchedulerError, match="already running"):
            worker.start()
        harness.until_finished(harness.add().id)
    assert not worker.running


def test_of_many_threads_that_run_a_worker_for_the_first_time_one_does(harness: WorkerHarness) -> None:
    for _ in range(30):
        worker = harness.worker(harness.count_runs)
        start, refused = threading.Barrier(4), threading.Semaphore(0)

        def run(
            worker: Worker = worker, start: threading.Barrier = start, refused: threading.Semaphore = refused
        ) -> None:
            start.wait(SOON)
            try:
                worker.run()
            except SchedulerError:
                refused.release()

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(3):
            assert refused.acquire(timeout=SOON)
        assert worker.stop(5.0)
        for thread in threads:
            thread.join(SOON)


def _run_or_be_refused(worker: Worker, start: threading.Barrier, refused: threading.Semaphore) -> None:
    start.wait(SOON)
    try:
        worker.run()
    except SchedulerError:
        refused.release()


def test_a_worker_runs_again_after_it_stopped(harness: WorkerHarness) -> None:
    worker = harness.worker(harness.count_runs)
    for _ in range(5):
        job = harness.add()
        with worker:
            harness.until_finished(job.id)
        assert not worker.running
    assert sum(harness.runs.values()) == 5


def test_two_workers_in_one_process_share_the_work_and_not_their_state(harness: WorkerHarness) -> None:
    jobs = harness.add_many(200)
    one, two = harness.worker(harness.count_runs), harness.worker(harness.count_runs)
    with one, two:
        harness.until_finished(*(job.id for job in jobs))
        one.stop()
        assert not one.running
        assert two.running
        harness.until_finished(harness.add().id)
    assert set(harness.runs.values()) == {1}


# ---- health


def test_health_of_a_worker_that_does_not_run() -> None:
    assert Worker(MemoryBackend()).health == Health(
        running=False, stopping=False, leasing=False, held=0, stuck=0, outage=0.0
    )


def test_health_shows_what_is_held_and_whether_there_is_room(harness: WorkerHarness) -> None:
    go = threading.Event()
    begun = threading.Semaphore(0)

    def handle(job: Job, ctx: JobContext) -> None:
        begun.release()
        go.wait(SOON)

    worker = harness.worker(handle, concurrency=2, queue_buffer=0)
    with worker:
        assert worker.health.leasing
        jobs = harness.add_many(2)
        assert begun.acquire(timeout=SOON)
        assert begun.acquire(timeout=SOON)  # a job that was only held would be given back by the stop
        assert worker.health == Health(running=True, stopping=False, leasing=False, held=2, stuck=0, outage=0.0)
        worker.request_stop()
        assert (worker.health.stopping, worker.health.leasing) == (True, False)
        go.set()
        harness.until_finished(*(job.id for job in jobs))


def test_health_shows_for_how_long_the_store_has_been_away(harness: WorkerHarness) -> None:
    worker = harness.worker(harness.count_runs)
    with worker:
        harness.faults.before(times=None)
        harness.until(lambda: worker.health.outage > 0.2)
        harness.faults.clear()
        harness.until(lambda: worker.health.outage == 0.0)


def test_what_a_worker_logs_goes_to_the_logger_it_was_given(
    harness: WorkerHarness, caplog: pytest.LogCaptureFixture
) -> None:
    logger = logging.getLogger("somebody.else")
    with Worker(harness.backend, harness.config(), logger=logger):
        pass
    assert {record.name for record in caplog.records} == {"somebody.else"}


def test_a_retry_policy_of_the_handler_is_used_where_the_job_has_none(harness: WorkerHarness) -> None:
    worker = harness.worker(retry_policy=RetryPolicy.fixed(3_600.0))

    @worker.handler("quick", retry_policy=RetryPolicy.fixed(0.001))
    def quick(job: Job, ctx: JobContext) -> None:
        raise ValueError

    jobs = [
        harness.add(type="quick", max_retries=1),
        harness.add(type="quick", max_retries=1, retry_policy=RetryPolicy.fixed(7_200.0)),
    ]
    with worker:
        harness.until_state(jobs[0].id, JobState.DEAD)
        waiting = harness.until_state(jobs[1].id, JobState.RETRY_WAIT)
    assert waiting.due_at is not None
    assert 7_100 < (waiting.due_at - waiting.created_at).total_seconds() < 7_300


def test_retention_of_nothing_leaves_no_job_behind() -> None:
    harness = WorkerHarness(MemoryBackend(retention=Retention(dead=0.0)))
    worker = harness.worker(harness.count_runs)
    worker.handle("fails", lambda job, ctx: 1 / 0)
    harness.add_many(3)
    harness.add(type="fails", max_retries=0)
    with worker:
        harness.until(lambda: not any(harness.counts().values()))
    harness.close()
