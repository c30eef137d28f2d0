"""New jobs and stored jobs."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import pickle
import re
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.config import ProducerConfig
from scheduler.errors import ConfigError, InvalidJob
from scheduler.identity import id_for_key
from scheduler.jobs import LEASE_EXPIRED, ErrorDetail, ErrorRecord, Job, NewJob, Priority
from scheduler.limits import MAX_DELAY
from scheduler.retry import RetryPolicy
from scheduler.states import JobState

NOW = datetime(2030, 1, 1, tzinfo=UTC)


class Queue(str, Enum):  # noqa: UP042 - the old spelling is what formats as "Queue.MAIL"
    MAIL = "mail"


def test_a_job_with_another_payload_is_the_same_job_to_a_store() -> None:
    job = NewJob(type="send", payload=b"plain", idempotency_key="order-1", metadata={"a": "b"})
    sealed = job.with_payload(b"sealed")
    assert (sealed.payload, sealed.id, sealed.nonce) == (b"sealed", job.id, job.nonce)
    assert dataclasses.replace(sealed, payload=b"plain") == job
    with pytest.raises(InvalidJob) as refusal:
        job.with_payload("text")  # type: ignore[arg-type]  # refused
    assert refusal.value.field == "payload"


def test_a_job_needs_a_type_alone() -> None:
    job = NewJob(type="send")
    assert (job.queue, job.payload, job.priority, job.max_retries, job.timeout) == (
        "default",
        b"",
        Priority.NORMAL,
        3,
        30,
    )
    assert (job.run_at, job.delay, job.retry_policy, job.idempotency_key, job.metadata) == (None, None, None, None, {})
    assert uuid.UUID(job.id).version == 7
    assert re.fullmatch("[0-9a-f]{16}", job.nonce)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("type", ""),
        ("type", "x" * 201),
        ("type", None),
        ("type", b"send"),
        ("type", "a\nb"),
        ("queue", ""),
        ("queue", "\x00"),
        ("queue", 1),
        ("queue", None),
        ("payload", "text"),
        ("payload", bytearray(b"x")),
        ("payload", memoryview(b"x")),
        ("payload", None),
        ("payload", {"a": 1}),
        ("run_at", datetime(2030, 1, 1)),  # noqa: DTZ001 - naive on purpose
        ("run_at", 1.0),
        ("run_at", "tomorrow"),
        ("run_at", datetime.max.replace(tzinfo=timezone(timedelta(hours=-1)))),
        ("delay", -1),
        ("delay", -(10**9)),
        ("delay", 10**12),
        ("delay", 10**30),
        ("delay", 10**400),
        ("delay", math.nan),
        ("delay", math.inf),
        ("delay", True),
        ("delay", "5"),
        ("delay", timedelta(seconds=5)),
        ("priority", -1),
        ("priority", 4),
        ("priority", True),
        ("priority", 1.0),
        ("priority", "HIGH"),
        ("priority", None),
        ("max_retries", -1),
        ("max_retries", True),
        ("max_retries", 1.0),
        ("max_retries", "3"),
        ("max_retries", None),
        ("max_retries", 10**9),
        ("timeout", 0),
        ("timeout", -1),
        ("timeout", 0.000_9),
        ("timeout", math.nan),
        ("timeout", math.inf),
        ("timeout", None),
        ("timeout", True),
        ("retry_policy", "exponential"),
        ("retry_policy", 5),
        ("id", ""),
        ("id", "x" * 201),
        ("id", "a\tb"),
        ("id", 7),
        ("id", uuid.UUID(int=7)),
        ("idempotency_key", ""),
        ("idempotency_key", "x" * 201),
        ("idempotency_key", 5),
        ("idempotency_key", "\ud800"),
        ("metadata", None),
        ("metadata", {"a": 1}),
        ("metadata", {"a": "x" * 8192}),
    ],
    ids=lambda value: ascii(value)[:11],
)
def test_nonsense_is_refused_and_named(field: str, value: object) -> None:
    with pytest.raises(InvalidJob) as caught:
        NewJob(**{"type": "send", field: value})  # type: ignore[arg-type]  # what the test is about
    assert caught.value.field == field


def test_nothing_is_too_strange_for_a_payload_of_bytes() -> None:
    every = bytes(range(256))
    assert NewJob(type="send", payload=every).payload == every


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Linear(RetryPolicy):
    """A retry policy of an application."""

    curve: str = "linear"  # type: ignore[assignment]  # of its own

    def __post_init__(self) -> None:
        pass

    def delay(self, attempt: int) -> float:
        return self.initial * attempt


def _forced(**values: object) -> RetryPolicy:
    policy = RetryPolicy()
    for name, value in values.items():
        object.__setattr__(policy, name, value)
    return policy


@pytest.mark.parametrize(
    "policy",
    [
        Linear(initial=2.0),
        _forced(cap=math.inf),
        _forced(cap=math.nan),
        _forced(curve="linear"),
        _forced(curve=["exponential"]),
        _forced(max_retries=object()),
        object.__new__(RetryPolicy),
        RetryPolicy,
    ],
    ids=["subclass", "infinite", "nan", "curve", "list", "object", "empty", "class"],
)
def test_a_retry_policy_that_no_store_can_carry_is_refused(policy: RetryPolicy) -> None:
    """A store would keep only its data, which could not be read back."""
    with pytest.raises(InvalidJob) as caught:
        NewJob(type="send", retry_policy=policy)
    assert caught.value.field == "retry_policy"
    with pytest.raises(ConfigError) as refused:
        ProducerConfig(retry_policy=policy)
    assert refused.value.field == "retry_policy"


class _Text(str):
    __slots__ = ()

    def __len__(self) -> int:
        return 1

    def __str__(self) -> str:
        return "other"

    def encode(self, *_: object) -> bytes:  # type: ignore[override]  # the point
        raise ValueError


class _Bytes(bytes):
    def __bytes__(self) -> bytes:
        return b"other"


class _Int(int):
    def __int__(self) -> int:
        return -1

    def __le__(self, other: object) -> bool:
        return True

    def __ge__(self, other: object) -> bool:
        return True


class _Float(float):
    def __float__(self) -> float:
        return math.inf


class _Moment(datetime):
    def astimezone(self, _zone: object = None) -> datetime:  # type: ignore[override]  # the point
        raise AttributeError


def test_subclasses_of_plain_types_are_kept_as_the_plain_value() -> None:
    """The plain value is stored and checked, whatever the methods of the subclass return."""
    job = NewJob(
        type=_Text("send"),
        payload=_Bytes(b"data"),
        run_at=_Moment(2030, 1, 1, 9, tzinfo=timezone(timedelta(hours=9))),
        max_retries=_Int(5),
        timeout=_Float(2.5),
        id=_Text("an id"),
        metadata={_Text("key"): _Text("value")},
    )
    values = (job.type, job.payload, job.run_at, job.max_retries, job.timeout, job.id, *job.metadata.items())
    assert values == ("send", b"data", NOW, 5, 2.5, "an id", ("key", "value"))
    assert [type(value) for value in values[:6]] == [str, bytes, datetime, int, float, str]
    assert {type(text) for text in (*job.metadata, *job.metadata.values())} == {str}
    for field, value in (("type", _Text("x" * 201)), ("max_retries", _Int(-5)), ("timeout", _Float(-5.0))):
        with pytest.raises(InvalidJob, match=f"^{field}: "):
            NewJob(**{"type": "send", field: value})  # type: ignore[arg-type]  # what the test is about


class _Hostile(dict[str, str]):
    def items(self) -> object:  # type: ignore[override]  # the point
        raise KeyError("no")


class _Zone(tzinfo):
    def utcoffset(self, _moment: datetime | None) -> timedelta | None:
        raise KeyError("no")


class _Flat(dict[str, str]):
    def items(self) -> object:  # type: ignore[override]  # the point
        return [1, 2]


@pytest.mark.parametrize(
    ("field", "value"),
    [("metadata", _Hostile()), ("metadata", _Flat()), ("run_at", datetime(2030, 1, 1, tzinfo=_Zone()))],
    ids=["items raise", "items are no pairs", "zone raises"],
)
def test_what_raises_when_it_is_read_is_refused_and_named(field: str, value: object) -> None:
    with pytest.raises(InvalidJob) as caught:
        NewJob(**{"type": "send", field: value})  # type: ignore[arg-type]  # what the test is about
    assert caught.value.field == field


@pytest.mark.parametrize("field", ["kind", "message", "traceback"])
def test_an_error_is_made_of_texts(field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ErrorDetail(**{"kind": "E", field: None})  # type: ignore[arg-type]  # what the test is about
    assert caught.value.field == field


def test_a_time_and_a_delay_exclude_each_other() -> None:
    with pytest.raises(InvalidJob, match=r"^delay: "):
        NewJob(type="send", run_at=NOW, delay=0)


def test_a_job_is_frozen() -> None:
    job = NewJob(type="send")
    with pytest.raises(dataclasses.FrozenInstanceError):
        job.queue = "other"  # type: ignore[misc]  # what the test is about


def test_text_enums_are_kept_as_their_text() -> None:
    """Formatted into a key they would read "Queue.MAIL"."""
    job = NewJob(type=Queue.MAIL, queue=Queue.MAIL, id=Queue.MAIL)
    keyed = NewJob(type="send", queue=Queue.MAIL, idempotency_key=Queue.MAIL)
    assert [f"{name}" for name in (job.type, job.queue, job.id, keyed.idempotency_key)] == ["mail"] * 4
    assert keyed.id == id_for_key("mail", "mail")


def test_numbers_are_kept_in_their_types() -> None:
    job = NewJob(type="send", priority=1, max_retries=Priority.LOW, delay=5, timeout=2)  # type: ignore[arg-type]  # 1
    assert job.priority is Priority.HIGH
    assert [type(value) for value in (job.max_retries, job.delay, job.timeout)] == [int, float, float]


def test_a_time_is_kept_in_utc() -> None:
    job = NewJob(type="send", run_at=NOW.astimezone(timezone(timedelta(hours=9))))
    assert (job.run_at, job.run_at and job.run_at.tzinfo) == (NOW, UTC)


def test_metadata_is_the_jobs_own() -> None:
    metadata = {"a": "1"}
    job = NewJob(type="send", metadata=metadata)
    metadata["a"] = "2"
    assert job.metadata == {"a": "1"}


# Identity


def test_a_key_makes_the_id_within_its_queue() -> None:
    first, again = (NewJob(type="send", queue="mail", idempotency_key="order-1") for _ in range(2))
    other = NewJob(type="send", queue="sms", idempotency_key="order-1")
    assert first.id == again.id == id_for_key("mail", "order-1")
    assert other.id != first.id


def test_an_id_and_a_key_exclude_each_other() -> None:
    with pytest.raises(InvalidJob, match=r"^id: "):
        NewJob(type="send", id="mine", idempotency_key="order-1")


def test_every_new_job_has_a_nonce_of_its_own() -> None:
    """Otherwise a store would treat another job with the same id as a repeat of the first."""
    job = NewJob(type="send", id="1")
    changed = dataclasses.replace(job, payload=b"other")
    assert changed.id == job.id
    again = NewJob(type="send", id="1")
    assert len({job.nonce, changed.nonce, again.nonce}) == 3
    assert job == again  # to a program the nonce is no part of the job
    assert job.nonce not in repr(job)


@pytest.mark.parametrize("travel", [copy.copy, copy.deepcopy, lambda job: pickle.loads(pickle.dumps(job))])  # noqa: S301 - its own
def test_a_copy_is_the_same_job_to_a_store(travel) -> None:  # type: ignore[no-untyped-def]  # one of three
    job = NewJob(type="send", payload=b"\xff", idempotency_key="k", metadata={"a": "b"}, retry_policy=RetryPolicy())
    again = travel(job)
    assert (again, again.nonce) == (job, job.nonce)


def test_replacing_a_field_of_a_job_with_a_key_keeps_its_id() -> None:
    job = NewJob(type="send", idempotency_key="order-1")
    assert dataclasses.replace(job, payload=b"x").id == job.id


# When it runs


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, NOW),
        ({"delay": 0}, NOW),
        ({"delay": 1.5}, NOW + timedelta(seconds=1.5)),
        ({"run_at": NOW - timedelta(days=9)}, NOW - timedelta(days=9)),
        ({"run_at": datetime(9999, 12, 31, tzinfo=UTC)}, datetime(9999, 12, 31, tzinfo=UTC)),
    ],
    ids=repr,
)
def test_when_to_run_is_asked_for_or_now(options: dict[str, object], expected: datetime) -> None:
    assert NewJob(type="send", **options).run_at_from(NOW) == expected  # type: ignore[arg-type]  # as named above


@given(st.floats(0, MAX_DELAY), st.datetimes(timezones=st.just(UTC)))
def test_a_delay_can_be_resolved_at_any_moment(delay: float, now: datetime) -> None:
    """Also with a clock near the last year."""
    assert NewJob(type="send", delay=delay).run_at_from(now) >= now


def test_a_delay_beyond_the_last_moment_ends_there() -> None:
    assert NewJob(type="send", delay=5).run_at_from(datetime.max.replace(tzinfo=UTC)) == datetime.max.replace(
        tzinfo=UTC
    )


# Stored errors


def test_an_error_text_is_cleaned_and_cut() -> None:
    """The end of a traceback is kept, which names the line that raised."""
    detail = ErrorDetail(kind="K" * 300, message="\x00\ud800" + "m" * 3_000, traceback="t" * 9_000 + "the line")
    assert (len(detail.kind), len(detail.message), len(detail.traceback)) == (200, 2_000, 8_000)
    assert detail.message.startswith("\ufffd\ufffdm")
    assert detail.traceback.endswith("the line")


def test_an_error_always_has_a_kind() -> None:
    assert ErrorDetail(kind="").kind == "Error"


def test_a_record_adds_attempt_and_moment() -> None:
    record = ErrorRecord.of(LEASE_EXPIRED, attempt=2, at=NOW)
    assert (record.attempt, record.at, record.kind) == (2, NOW, "LeaseExpired")
    assert record.message == LEASE_EXPIRED.message
    detail = ErrorDetail(kind="ValueError", message="m", traceback="t")
    assert dataclasses.astuple(ErrorRecord.of(detail, attempt=1, at=NOW)) == (1, NOW, "ValueError", "m", "t")


def test_the_last_error_is_the_newest() -> None:
    job = Job(
        id="1",
        queue="mail",
        type="send",
        payload=b"",
        state=JobState.READY,
        priority=Priority.NORMAL,
        run_at=NOW,
        created_at=NOW,
        max_retries=3,
        timeout=30.0,
    )
    errors = tuple(ErrorRecord(attempt=attempt, at=NOW, kind="E") for attempt in (1, 2))
    assert (job.last_error, job.attempts, job.crashes) == (None, 0, 0)
    assert (job.queue_version, job.partition) == (1, 0)  # where a store has no partitions
    assert dataclasses.replace(job, errors=errors).last_error == errors[1]


def test_a_lower_priority_number_is_sooner() -> None:
    assert sorted(Priority) == [Priority.URGENT, Priority.HIGH, Priority.NORMAL, Priority.LOW]


@pytest.mark.parametrize(
    "change",
    [
        lambda metadata: metadata.update(a="2"),
        lambda metadata: metadata.__setitem__("a", 5),
        lambda metadata: metadata.__delitem__("a"),
        lambda metadata: metadata.__ior__({"a": "2"}),
        lambda metadata: metadata.setdefault("b", 5),
        lambda metadata: metadata.pop("a"),
        lambda metadata: metadata.popitem(),
        lambda metadata: metadata.clear(),
    ],
)
def test_metadata_is_read_only(change: Callable[[Any], object]) -> None:
    job = NewJob(type="t", metadata={"a": "1"})
    with pytest.raises(TypeError, match="cannot be changed"):
        change(job.metadata)
    assert job.metadata == {"a": "1"}


def test_a_job_with_metadata_is_copied_and_pickled_as_it_is() -> None:
    job = NewJob(type="t", metadata={"a": "1"})
    pickled = pickle.loads(pickle.dumps(job))  # noqa: S301 - its own
    for made in (pickled, copy.copy(job), copy.deepcopy(job), dataclasses.replace(job)):
        assert made == job
        assert made.metadata == {"a": "1"}
        with pytest.raises(TypeError):
            made.metadata["a"] = "2"
    assert dataclasses.asdict(job)["metadata"] == {"a": "1"}
    assert json.dumps(job.metadata) == '{"a": "1"}'
    changed = {**job.metadata, "a": "2"}
    assert dataclasses.replace(job, metadata=changed).metadata == changed
    assert job.metadata | {"b": "2"} == {"a": "1", "b": "2"}
