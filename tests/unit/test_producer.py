"""The producer: its defaults, what it refuses before anything is stored, and what it raises when a store fails."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from datetime import UTC, datetime, timedelta, timezone
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler import producer as room
from scheduler.abilities import TransactionalEnqueue
from scheduler.backend import Backend
from scheduler.config import ProducerConfig
from scheduler.errors import (
    BackendClosed,
    BackendUnavailable,
    ConfigError,
    DuplicateJob,
    InvalidJob,
    JobNotFound,
    NotSupported,
)
from scheduler.identity import id_for_key, new_token
from scheduler.jobs import Job, NewJob, Priority
from scheduler.leases import Enqueued, Failure
from scheduler.metrics import HOOKS, CountingMetrics, Metrics
from scheduler.producer import JobOptions, Producer
from scheduler.retry import RetryPolicy
from scheduler.serializers import JsonSerializer
from scheduler.states import JobState
from scheduler.testing import FaultyBackend, faulty
from scheduler_backends.memory import MemoryBackend

SECRET = "hunter2"  # noqa: S105 - stands in payloads, and must not stand in logs
NAIVE = datetime(2030, 1, 1)  # noqa: DTZ001 - naive on purpose
DURABLE = RetryPolicy.durable()
FIXED = RetryPolicy.fixed(5.0)


@pytest.fixture
def backend() -> Iterator[FaultyBackend]:
    memory = MemoryBackend()
    yield faulty(memory)
    memory.close()


@pytest.fixture
def producer(backend: Backend) -> Producer:
    return Producer(backend)


def stored(backend: Backend) -> int:
    return sum(sum(stats.counts.values()) for stats in backend.stats())


def kill(backend: Backend, queue: str, id: str) -> None:
    """Lease the one ready job of *queue*, which has this id, and bury it."""
    (lease,) = backend.lease([queue], token=new_token(), worker_id="w", duration=30.0, limit=10)
    assert lease.job.id == id
    assert backend.bury([Failure(lease=lease)]) == []


# What is stored


def test_a_job_of_defaults(producer: Producer, backend: Backend) -> None:
    answer = producer.enqueue("send")
    assert answer.is_new
    job = backend.get("default", [answer.job.id])[answer.job.id]
    assert job == answer.job
    assert (job.type, job.queue, job.payload, job.state) == ("send", "default", b"null", JobState.READY)
    assert (job.priority, job.max_retries, job.timeout) == (Priority.NORMAL, 3, 30.0)
    assert (job.retry_policy, job.idempotency_key, job.metadata) == (None, None, {})


def test_the_configuration_gives_the_defaults(backend: Backend) -> None:
    config = ProducerConfig(
        default_queue="mail", default_max_retries=7, default_timeout=2.5, retry_policy=FIXED, max_payload=4
    )
    job = Producer(backend, config).enqueue("send").job
    assert (job.queue, job.max_retries, job.timeout, job.retry_policy) == ("mail", 7, 2.5, FIXED)


def test_every_option_of_a_job_can_be_given_to_a_producer() -> None:
    options = {field.name for field in fields(NewJob) if field.init} - {"type", "payload"}
    assert set(JobOptions.__annotations__) == options


def test_every_argument_arrives(producer: Producer) -> None:
    run_at = datetime(2031, 1, 1, 9, tzinfo=timezone(timedelta(hours=9)))
    job = producer.enqueue(
        "send",
        {"to": "ä"},
        queue="mail",
        run_at=run_at,
        max_retries=1,
        timeout=5,
        priority=Priority.URGENT,
        id="mine",
        metadata={"trace": "1"},
        retry_policy=DURABLE,
    ).job
    assert (job.id, job.queue, job.payload) == ("mine", "mail", '{"to":"ä"}'.encode())
    assert (job.run_at, job.due_at, job.state) == (run_at, run_at, JobState.SCHEDULED)
    assert (job.max_retries, job.timeout, job.priority) == (1, 5.0, Priority.URGENT)
    assert (job.metadata, job.retry_policy) == ({"trace": "1"}, DURABLE)


def test_a_delay_counts_from_the_moment_of_storing(producer: Producer) -> None:
    job = producer.enqueue("send", delay=60).job
    assert job.state is JobState.SCHEDULED
    assert abs(job.run_at - job.created_at - timedelta(seconds=60)) < timedelta(milliseconds=2)


def test_new_job_makes_what_enqueue_stores_and_stores_nothing(producer: Producer, backend: Backend) -> None:
    job = producer.new_job(
        "send", [1], queue="mail", delay=5.0, timeout=9, idempotency_key="order-1", metadata={"a": "b"}, max_retries=0
    )
    assert job == NewJob(
        type="send",
        payload=b"[1]",
        queue="mail",
        delay=5.0,
        timeout=9,
        idempotency_key="order-1",
        metadata={"a": "b"},
        max_retries=0,
    )
    assert stored(backend) == 0
    (answer,) = producer.enqueue_many([job])
    assert answer.job.id == job.id == id_for_key("mail", "order-1")


@pytest.mark.parametrize(
    ("argument", "policy", "configured", "default", "expected"),
    [
        (None, None, None, 3, 3),
        (None, None, None, 0, 0),
        (0, None, None, 3, 0),
        (0, DURABLE, DURABLE, 3, 0),
        (9, DURABLE, None, 3, 9),
        (None, DURABLE, None, 3, 24),
        (None, None, DURABLE, 3, 24),
        (None, FIXED, None, 3, 3),
        (None, FIXED, DURABLE, 3, 3),  # the job's own policy is in force, and leaves the number to the default
        (None, RetryPolicy.fixed(1.0, max_retries=0), DURABLE, 3, 0),
    ],
)
def test_where_the_number_of_retries_comes_from(
    *,
    backend: Backend,
    argument: int | None,
    policy: RetryPolicy | None,
    configured: RetryPolicy | None,
    default: int,
    expected: int,
) -> None:
    """Guarantee 11: the argument, else the policy in force, else the default; an explicit 0 stays 0."""
    producer = Producer(backend, ProducerConfig(default_max_retries=default, retry_policy=configured))
    job = producer.enqueue("send", max_retries=argument, retry_policy=policy).job
    assert job.max_retries == expected
    assert job.retry_policy == (policy or configured)


# Payloads


@pytest.mark.parametrize("payload", [b"", b"\x00", bytes(range(256)), b"\xff" * 1_000])
def test_bytes_pass_through(producer: Producer, payload: bytes) -> None:
    assert producer.enqueue("send", payload).job.payload == payload


class Shouting:
    """Another serializer."""

    def dumps(self, value: object) -> bytes:
        return str(value).upper().encode()

    def loads(self, data: bytes) -> object:
        return data.decode().lower()


def test_another_serializer_may_be_given(backend: Backend) -> None:
    producer = Producer(backend, serializer=Shouting())
    assert producer.enqueue("send", "hello").job.payload == b"HELLO"
    assert producer.enqueue("send", b"as it is").job.payload == b"as it is"


@pytest.mark.parametrize("size", [0, 1, 262_144])
def test_a_payload_may_be_as_large_as_configured(producer: Producer, size: int) -> None:
    assert len(producer.enqueue("send", b"x" * size).job.payload) == size


@given(st.text(max_size=30))
def test_the_size_of_a_payload_is_that_of_its_bytes(text: str) -> None:
    producer = Producer(MemoryBackend(), ProducerConfig(max_payload=32))
    size = len(JsonSerializer().dumps(text))
    if size <= 32:
        assert len(producer.new_job("send", text).payload) == size
    else:
        with pytest.raises(InvalidJob, match=f"must not exceed 32 bytes, has {size}"):
            producer.new_job("send", text)


# Bad input


def circular() -> list[object]:
    value: list[object] = []
    value.append(value)
    return value


def deep() -> list[object]:
    value: list[object] = []
    for _ in range(200_000):
        value = [value]
    return value


BAD_INPUT: list[tuple[str, dict[str, object]]] = [
    ("type", {"type": ""}),
    ("type", {"type": "x" * 201}),
    ("type", {"type": None}),
    ("type", {"type": "a\nb"}),
    ("payload", {"payload": {1, 2}}),
    ("payload", {"payload": object()}),
    ("payload", {"payload": math.nan}),
    ("payload", {"payload": [math.inf]}),
    ("payload", {"payload": circular()}),
    ("payload", {"payload": deep()}),
    ("payload", {"payload": "\ud800"}),
    ("payload", {"payload": bytearray(b"x")}),
    ("payload", {"payload": b"x" * 262_145}),
    ("payload", {"payload": "x" * 262_143}),
    ("queue", {"queue": ""}),
    ("queue", {"queue": "x" * 201}),
    ("queue", {"queue": 5}),
    ("run_at", {"run_at": NAIVE}),
    ("run_at", {"run_at": 5.0}),
    ("delay", {"run_at": NAIVE.replace(tzinfo=UTC), "delay": 0}),
    ("delay", {"delay": -1}),
    ("delay", {"delay": -(10**9)}),
    ("delay", {"delay": 10**12}),
    ("delay", {"delay": 10**400}),
    ("delay", {"delay": math.nan}),
    ("delay", {"delay": True}),
    ("max_retries", {"max_retries": -1}),
    ("max_retries", {"max_retries": True}),
    ("max_retries", {"max_retries": 1.0}),
    ("max_retries", {"max_retries": "3"}),
    ("timeout", {"timeout": 0}),
    ("timeout", {"timeout": math.inf}),
    ("timeout", {"timeout": True}),
    ("priority", {"priority": 4}),
    ("priority", {"priority": True}),
    ("priority", {"priority": None}),
    ("id", {"id": ""}),
    ("id", {"id": "x" * 201}),
    ("id", {"id": 5}),
    ("id", {"id": "a", "idempotency_key": "b"}),
    ("idempotency_key", {"idempotency_key": ""}),
    ("idempotency_key", {"idempotency_key": 5}),
    ("metadata", {"metadata": {"a": 1}}),
    ("metadata", {"metadata": "text"}),
    ("metadata", {"metadata": {"a": "x" * 8_192}}),
    ("retry_policy", {"retry_policy": 3}),
    ("retry_policy", {"retry_policy": "exponential", "max_retries": 3}),
    ("if_exists", {"if_exists": "replace"}),
    ("if_exists", {"if_exists": None}),
]


@pytest.mark.parametrize(("field", "options"), BAD_INPUT, ids=[f"{field}{n}" for n, (field, _) in enumerate(BAD_INPUT)])
def test_bad_input_is_named_and_nothing_is_stored(
    producer: Producer, backend: FaultyBackend, field: str, options: dict[str, object]
) -> None:
    with pytest.raises((InvalidJob, ConfigError)) as caught:
        producer.enqueue(**{"type": "send", **options})  # type: ignore[arg-type]  # what the test is about
    assert cast("InvalidJob", caught.value).field == field
    assert isinstance(caught.value, ConfigError) == (field == "if_exists")
    assert backend.faults.count() == 0  # the store was not even asked
    if field != "if_exists":
        with pytest.raises(InvalidJob, match=f"^{field}: "):
            producer.new_job(**{"type": "send", **options})  # type: ignore[arg-type]  # as above


class Fussy(Shouting):
    """A serializer that refuses everything, or does not return bytes."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def dumps(self, value: object) -> bytes:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return cast("bytes", self.answer)


def test_the_module_json_is_no_serializer_since_it_makes_text(backend: Backend) -> None:
    with pytest.raises(InvalidJob, match=r"^payload: must be bytes, not str"):
        Producer(backend, serializer=json).enqueue("send", 1)  # type: ignore[arg-type]  # what the test is about


@pytest.mark.parametrize("answer", [KeyError("no such field"), RuntimeError("changed"), "text", None, bytearray(b"x")])
def test_what_a_serializer_refuses_is_an_invalid_payload(backend: Backend, answer: object) -> None:
    with pytest.raises(InvalidJob, match=r"^payload: ") as caught:
        Producer(backend, serializer=Fussy(answer)).enqueue("send", 1)
    if isinstance(answer, Exception):
        assert caught.value.__cause__ is answer
    assert stored(backend) == 0


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("backend", {"backend": None}),
        ("backend", {"backend": "memory://"}),
        ("backend", {"backend": MemoryBackend}),
        ("config", {"config": JsonSerializer()}),
        ("config", {"config": {"default_queue": "mail"}}),
        ("serializer", {"serializer": logging}),
        ("serializer", {"serializer": JsonSerializer}),
        ("logger", {"logger": "jobs"}),
        ("logger", {"logger": logging.Logger}),
        ("serializer", {"serializer": 5}),
        ("metrics", {"metrics": Metrics}),
        ("metrics", {"metrics": object()}),
    ],
)
def test_a_producer_refuses_what_it_cannot_use(backend: Backend, field: str, options: dict[str, object]) -> None:
    with pytest.raises(ConfigError) as caught:
        Producer(**{"backend": backend, **options})  # type: ignore[arg-type]  # what the test is about
    assert caught.value.field == field


# Many


def test_many_are_answered_in_order(producer: Producer) -> None:
    producer.enqueue("send", id="1")
    jobs = [producer.new_job("send", id=str(number)) for number in (2, 1, 0)]
    answers = producer.enqueue_many(job for job in jobs)
    assert [(answer.job.id, answer.is_new) for answer in answers] == [("2", True), ("1", False), ("0", True)]


def test_none_are_none(producer: Producer, backend: FaultyBackend) -> None:
    assert producer.enqueue_many([]) == []
    assert backend.faults.count() == 0


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("jobs", None),
        ("jobs", "send"),
        ("jobs", {"type": "send"}),
        ("jobs", NewJob),
        ("payload", NewJob(type="send", payload=b"x" * 11)),
    ],
    ids=["None", "text", "dict", "class", "too large"],
)
def test_all_are_checked_before_any_is_stored(backend: FaultyBackend, field: str, bad: NewJob) -> None:
    producer = Producer(backend, ProducerConfig(max_payload=10))
    with pytest.raises(InvalidJob, match=f"^{field}: "):
        producer.enqueue_many([NewJob(type="send"), bad])
    assert backend.faults.count() == 0


@pytest.mark.parametrize("bad", [None, 5, NewJob(type="send")], ids=["None", "number", "one job"])
def test_many_are_an_iterable(producer: Producer, bad: Sequence[NewJob]) -> None:
    with pytest.raises(InvalidJob, match=r"^jobs: must be an iterable of NewJob"):
        producer.enqueue_many(bad)


def test_a_subclass_of_new_job_is_refused(producer: Producer) -> None:
    """Its class may leave out the checks."""

    class Mail(NewJob):
        def __post_init__(self) -> None: ...

    with pytest.raises(InvalidJob, match=r"^jobs: must be plain NewJob objects"):
        producer.enqueue_many([Mail(type="send")])


def test_an_iterable_that_fails_stores_nothing(producer: Producer, backend: FaultyBackend) -> None:
    def jobs() -> Iterator[NewJob]:
        yield NewJob(type="send")
        raise LookupError

    with pytest.raises(LookupError):
        producer.enqueue_many(jobs())
    assert backend.faults.count() == 0


def test_a_call_larger_than_the_limit_is_sliced(producer: Producer, backend: FaultyBackend) -> None:
    answers = producer.enqueue_many(NewJob(type="send", id=str(number)) for number in range(20_001))
    assert [answer.job.id for answer in answers] == [str(number) for number in range(20_001)]
    assert [len(cast("list[NewJob]", call.args[0])) for call in backend.faults.calls] == [10_000, 10_000, 1]


# Already there


def test_the_stored_job_is_answered_and_unchanged(producer: Producer, backend: Backend) -> None:
    first = producer.enqueue("send", 1, idempotency_key="order-1")
    again = producer.enqueue("other", 2, idempotency_key="order-1", priority=Priority.LOW)
    assert (first.is_new, again.is_new) == (True, False)
    assert again.job == first.job
    assert stored(backend) == 1


def test_a_duplicate_is_raised_where_asked_for_and_carries_the_stored_job(producer: Producer) -> None:
    first = producer.enqueue("send", {"password": SECRET}, id="1", if_exists="raise")
    with pytest.raises(DuplicateJob) as caught:
        producer.enqueue("send", id="1", if_exists="raise")
    assert caught.value.job == first.job
    assert "'default'" in str(caught.value)
    assert "'1'" in str(caught.value)
    assert SECRET not in str(caught.value)


def test_enqueueing_the_id_of_a_dead_job_warns(
    producer: Producer, backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    """It keeps its id, so later enqueues with that id would be ignored silently."""
    producer.enqueue("send", {"password": SECRET}, id="1", queue="mail")
    producer.enqueue("send", id="1", queue="mail")
    assert caplog.records == []  # nothing to warn of as long as it lives
    kill(backend, "mail", "1")
    answer = producer.enqueue("send", {"password": SECRET}, id="1", queue="mail")
    assert (answer.is_new, answer.job.state) == (False, JobState.DEAD)
    (record,) = caplog.records
    assert (record.levelname, record.name) == ("WARNING", "scheduler.producer")
    assert "Job 1 of queue mail is dead" in record.getMessage()
    assert SECRET not in caplog.text


def test_nothing_is_logged_of_a_payload(
    producer: Producer, backend: FaultyBackend, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    backend.faults.before("enqueue")
    with pytest.raises(BackendUnavailable) as caught:
        producer.enqueue("send", SECRET)
    producer.enqueue("send", SECRET)
    assert SECRET not in caplog.text + str(caught.value) + repr(caught.value)


# A store that is away


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_unanswered_job_is_carried_and_can_be_repeated(
    producer: Producer, backend: FaultyBackend, when: str
) -> None:
    """Whether or not the store had stored it, after the repeat it is stored once and reported as new."""
    getattr(backend.faults, when)("enqueue")
    with pytest.raises(BackendUnavailable) as caught:
        producer.enqueue("send", 1)
    (job,) = caught.value.jobs
    assert (job.type, job.payload) == ("send", b"1")
    (answer,) = producer.enqueue_many(caught.value.jobs)
    assert (answer.is_new, answer.job.id) == (True, job.id)
    assert stored(backend) == 1


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("failing", [1, 2, 3])
def test_exactly_the_unacknowledged_jobs_are_carried(
    backend: FaultyBackend, when: str, failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "MAX_BATCH", 4)
    metrics = CountingMetrics()
    producer = Producer(backend, metrics=metrics)
    jobs = [producer.new_job("send", number) for number in range(10)]
    getattr(backend.faults, when)("enqueue", nth=failing)
    with pytest.raises(BackendUnavailable) as caught:
        producer.enqueue_many(jobs)
    acknowledged = 4 * (failing - 1)
    assert [id(job) for job in caught.value.jobs] == [id(job) for job in jobs[acknowledged:]]
    assert metrics.counts["enqueued"] == acknowledged
    answers = producer.enqueue_many(caught.value.jobs)
    assert all(answer.is_new for answer in answers)
    assert metrics.counts == {"enqueued": 10}
    assert stored(backend) == 10


def test_a_repeat_may_fail_as_well(producer: Producer, backend: FaultyBackend) -> None:
    backend.faults.after("enqueue", times=3)
    jobs: Sequence[NewJob] = [producer.new_job("send", id=str(number)) for number in range(3)]
    for _ in range(3):
        with pytest.raises(BackendUnavailable) as caught:
            producer.enqueue_many(jobs)
        jobs = caught.value.jobs
    assert [answer.is_new for answer in producer.enqueue_many(jobs)] == [True] * 3
    assert stored(backend) == 3


def test_the_stores_own_error_is_raised_with_its_cause(producer: Producer, backend: FaultyBackend) -> None:
    cause = OSError("no route")

    def error() -> BackendUnavailable:
        made = BackendUnavailable("the store is away")
        made.__cause__ = cause
        return made

    backend.faults.before("enqueue", error=error)
    with pytest.raises(BackendUnavailable, match="the store is away") as caught:
        producer.enqueue("send")
    assert caught.value.__cause__ is cause


def test_a_closed_store_says_so(producer: Producer, backend: Backend) -> None:
    backend.close()
    with pytest.raises(BackendClosed):
        producer.enqueue("send")


# The caller's own transaction


class Transactional(MemoryBackend):
    """Records what it is given, or fails."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[object, Sequence[NewJob]]] = []
        self.error: Exception | None = None

    def enqueue_with(self, connection: object, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
        if self.error:
            raise self.error
        self.calls.append((connection, jobs))
        return self.enqueue(jobs)


def test_a_connection_is_handed_to_the_store() -> None:
    backend = Transactional()
    assert isinstance(backend, TransactionalEnqueue)
    connection: list[int] = []  # falsy, and still a connection
    producer = Producer(backend)
    one = producer.enqueue("send", connection=connection)
    many = producer.enqueue_many([producer.new_job("send") for _ in range(2)], connection=connection)
    assert [given for given, _ in backend.calls] == [connection] * 2
    assert [job.id for _, jobs in backend.calls for job in jobs] == [answer.job.id for answer in (one, *many)]


def test_a_store_without_transactions_refuses_a_connection(producer: Producer, backend: Backend) -> None:
    with pytest.raises(NotSupported, match="caller's connection"):
        producer.enqueue("send", connection=object())
    with pytest.raises(NotSupported):
        producer.enqueue_many([], connection=object())
    assert stored(backend) == 0


def test_a_failed_transaction_carries_no_jobs() -> None:
    """Repeating them outside it could store what the transaction rolled back."""
    backend = Transactional()
    backend.error = BackendUnavailable("away")
    with pytest.raises(BackendUnavailable) as caught:
        Producer(backend).enqueue("send", connection=object())
    assert caught.value.jobs == ()


# Reading


def test_a_stored_job_is_got(producer: Producer) -> None:
    job = producer.enqueue("send", queue="mail").job
    assert producer.get("mail", job.id) == job


@pytest.mark.parametrize("id", ["nosuch", "", "x" * 300, "a\x00b"])
def test_a_job_that_is_not_kept_is_not_found(producer: Producer, id: str) -> None:
    producer.enqueue("send", id="1")
    with pytest.raises(JobNotFound, match="'default' has no job"):
        producer.get("default", id)


def test_a_job_of_another_queue_is_not_found(producer: Producer) -> None:
    producer.enqueue("send", id="1", queue="mail")
    with pytest.raises(JobNotFound):
        producer.get("default", "1")


def test_bad_names_are_refused(producer: Producer) -> None:
    with pytest.raises(ConfigError, match=r"^queue: "):
        producer.get("", "1")
    with pytest.raises(ConfigError, match=r"^ids: "):
        producer.get("default", 1)  # type: ignore[arg-type]  # what the test is about


# Observers


def test_metrics_hear_of_every_job(backend: Backend) -> None:
    heard: list[tuple[Job, bool]] = []

    class Listening(Metrics):
        def enqueued(self, job: Job, is_new: bool) -> None:  # noqa: FBT001 - the hook's form
            heard.append((job, is_new))

    producer = Producer(backend, metrics=Listening())
    first = producer.enqueue("send", id="1")
    producer.enqueue_many([producer.new_job("send", id="1"), producer.new_job("send", id="2")])
    assert [(job.id, is_new) for job, is_new in heard] == [("1", True), ("1", False), ("2", True)]
    assert heard[0][0] == first.job


class HomeMade(BaseException):
    pass


class Harmful(logging.Handler):
    """A log handler that raises."""

    def __init__(self, error: type[BaseException]) -> None:
        super().__init__()
        self.error = error
        self.calls = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.calls += 1
        raise self.error


@pytest.mark.parametrize("error", [RuntimeError, RecursionError, SystemExit, GeneratorExit, HomeMade])
def test_observers_that_raise_neither_fail_nor_double_an_enqueue(
    backend: FaultyBackend, error: type[BaseException]
) -> None:
    """Not even if the metrics hook fails and the log handler that reports it fails too."""

    def hook(self: Metrics, *arguments: object) -> None:
        raise error

    metrics = type("Failing", (Metrics,), dict.fromkeys(HOOKS, hook))()
    logger = logging.Logger("harmful")  # noqa: LOG001 - one that no other test sees
    handler = Harmful(error)
    logger.addHandler(handler)
    producer = Producer(backend, metrics=metrics, logger=logger)
    for number in range(20):
        assert producer.enqueue("send", queue="mail", id=str(number)).is_new
    assert handler.calls == 1
    assert len(producer.enqueue_many([producer.new_job("send", queue="other", id="1")])) == 1
    assert stored(backend) == 21
    kill(backend, "other", "1")
    assert not producer.enqueue("send", queue="other", id="1").is_new
    assert handler.calls == 2  # the warning of the dead job
    assert backend.faults.count("enqueue") == 22


def test_threads_may_share_a_producer(producer: Producer, backend: Backend) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda number: producer.enqueue("send", number), range(800)))
    assert len({answer.job.id for answer in answers}) == stored(backend) == 800
    assert all(answer.is_new for answer in answers)
