"""What must never happen: what producers hand in, with workers running (guarantees 17, 18, 20, 30)."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone

import pytest

from scheduler.errors import BackendUnavailable, InvalidJob
from scheduler.jobs import Job
from scheduler.producer import Producer
from scheduler.states import JobState
from scheduler.worker import JobContext
from worker.harness import SOON, WorkerHarness

pytestmark = pytest.mark.every_store


def test_naive_times_are_refused_and_one_instant_in_three_zones_is_one(harness: WorkerHarness) -> None:
    """Guarantee 17."""
    producer = Producer(harness.backend)
    with pytest.raises(InvalidJob) as raised:
        producer.enqueue("work", queue=harness.queue, run_at=datetime(2031, 1, 1))  # noqa: DTZ001 - the purpose
    assert raised.value.field == "run_at"
    moment = datetime(2031, 1, 1, 12, 30, 0, 123456, tzinfo=UTC)
    zones = (UTC, timezone(timedelta(hours=-5)), timezone(timedelta(hours=9, minutes=30)))
    jobs = [producer.enqueue("work", queue=harness.queue, run_at=moment.astimezone(zone)).job for zone in zones]
    assert {harness.job(job.id).run_at for job in jobs} == {moment}
    assert {harness.job(job.id).run_at.utcoffset() for job in jobs} == {timedelta()}
    assert sum(harness.counts().values()) == 3, "nothing was stored for the naive one"


EXTREME = [
    {"run_at": datetime(1901, 1, 1, tzinfo=UTC)},
    {"run_at": datetime(1969, 12, 31, tzinfo=UTC)},
    {"run_at": datetime(2500, 1, 1, tzinfo=UTC)},
    {"run_at": datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)},
    {"delay": -1.0},
    {"delay": -1e9},
    {"delay": 1e9},
    {"delay": 1e12},
    {"delay": 1e30},
    {"delay": float("inf")},
    {"delay": float("nan")},
]


def test_extreme_times_never_stop_or_slow_other_jobs(harness: WorkerHarness) -> None:
    """Guarantee 18: refused when enqueued, or handled; the worker's processor use stays low."""
    producer = Producer(harness.backend)
    past, future, refused = list[str](), list[str](), list[str]()
    for times in EXTREME:
        try:
            job = producer.enqueue("work", queue=harness.queue, **times).job  # type: ignore[arg-type]  # by name
        except InvalidJob as error:
            refused.append(error.field)
            continue
        (past if job.run_at <= datetime.now(UTC) else future).append(job.id)
    assert refused == ["delay"] * 6
    normal = [job.id for job in harness.add_many(10)]
    with harness.worker(harness.count_runs, poll_interval=0.2):
        harness.until_finished(*normal, *past)
        calls, used, began = harness.faults.count(), time.process_time(), time.monotonic()
        assert harness.faults.wait_for("promote_due", calls=harness.faults.count("promote_due") + 4)
        used, took = time.process_time() - used, time.monotonic() - began
        calls = harness.faults.count() - calls
    assert {harness.state(id) for id in future} == {JobState.SCHEDULED}
    assert (len(past), len(future)) == (2, 3)
    assert used < 0.5 * took, "it does not spin"
    assert calls < 40


NAMES = [
    *("a:b", "a", "b", "a:b:ready", "*", "?", "{x}", "{x", "%s", "'; --", '"', "ä/日本"),
    *("sp ace", "\\", "..", "a b", "a:", ":b"),
]


SERVED = [name for name in NAMES if not set("*?[]") & set(name)]  # WorkerConfig refuses what looks like a pattern


def test_names_of_any_kind_keep_apart_exactly_their_own_jobs(harness: WorkerHarness) -> None:
    """Guarantee 20: queues, types and ids that would collide if they were joined or matched."""
    seen: list[tuple[str, str, str]] = []

    def handler(job: Job, ctx: JobContext) -> None:
        seen.append((job.queue, job.type, job.id))

    queues = {name: f"{harness.queue}{name}" for name in NAMES}
    for queue in queues.values():
        for name in NAMES[:3]:
            harness.add(queue=queue, type=name, id=name)
    for name in SERVED:
        worker = harness.worker(queues=(queues[name],))
        for kind in NAMES[:3]:
            worker.handle(kind, handler)
        seen.clear()
        with worker:
            harness.until(lambda: len(seen) >= 3)
            harness.until_finished(*NAMES[:3], queue=queues[name])
        assert sorted(seen) == sorted((queues[name], kind, kind) for kind in NAMES[:3])
    for name in NAMES:
        (row,) = harness.backend.wrapped.stats([queues[name]])
        state = JobState.SUCCEEDED if name in SERVED else JobState.READY
        assert (row.queue, row.counts[state], sum(row.counts.values())) == (queues[name], 3, 3)


@pytest.mark.parametrize("name", ["", "a\nb", "a\x00", "\x7f", "\ud800", "x" * 201])
def test_names_that_cannot_be_kept_apart_are_refused(harness: WorkerHarness, name: str) -> None:
    """Guarantee 20: by the documented rule, and nothing is stored."""
    producer = Producer(harness.backend)
    for field in ("queue", "id", "type"):
        given = {"type": "work", "queue": harness.queue, "id": None, field: name}
        with pytest.raises(InvalidJob) as raised:
            producer.enqueue(given.pop("type"), **given)  # type: ignore[arg-type]  # by name
        assert raised.value.field == field
    assert harness.faults.count("enqueue") == 0


def test_a_producer_says_at_once_that_the_store_is_away_and_works_when_it_is_back(harness: WorkerHarness) -> None:
    """Guarantee 30: and what it carries can be repeated without storing anything twice."""
    producer = Producer(harness.backend)
    for fault in (harness.faults.before, harness.faults.after):
        fault("enqueue")
        began = time.monotonic()
        with pytest.raises(BackendUnavailable) as raised:
            producer.enqueue("work", queue=harness.queue)
        assert time.monotonic() - began < SOON / 3
        (answer,) = producer.enqueue_many(raised.value.jobs)
        assert answer.is_new
    with harness.worker(harness.count_runs):
        harness.until_finished()
    assert list(harness.runs.values()) == [1, 1]
