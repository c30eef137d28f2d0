"""Records: what is written is read back, and what was damaged says so."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from scheduler.jobs import NewJob, Priority
from scheduler.retry import RetryPolicy
from scheduler.states import JobState
from scheduler_backends.redis import codec
from scheduler_backends.redis.codec import Damaged
from scheduler_backends.redis.keys import Keys

PARTITION = Keys("test").partition("queue", 3, 5)
NAMES = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=30)


@given(
    payload=st.binary(max_size=300),
    kind=NAMES,
    metadata=st.dictionaries(NAMES, NAMES, max_size=3),
    priority=st.sampled_from(Priority),
    max_retries=st.integers(0, 1_000_000),
    timeout=st.floats(0.001, 1e9),
    policy=st.sampled_from([None, RetryPolicy(), RetryPolicy.durable(), RetryPolicy.fixed(2.5)]),
)
def test_what_is_written_is_read_back(  # noqa: PLR0917 - as drawn
    payload, kind, metadata, priority, max_retries, timeout, policy
):
    job = NewJob(
        type=kind, payload=payload, queue="queue", metadata=metadata, priority=priority, max_retries=max_retries,
        timeout=timeout, retry_policy=policy, id="x",
    )  # fmt: skip
    record = bytes(16) + codec.body_of(job)
    read = codec.job_of(PARTITION, b"x", [b"ready", record, b"", b"", b"", b""])
    for name in ("id", "type", "payload", "queue", "metadata", "priority", "max_retries", "timeout", "retry_policy"):
        assert getattr(read, name) == getattr(job, name)
    assert (read.queue_version, read.partition, read.state) == (3, 5, JobState.READY)


@given(st.datetimes(timezones=st.just(UTC)))
def test_every_moment_is_kept_to_the_microsecond(moment):
    assert codec.moment(codec.micros(moment)) == moment


def test_the_last_moment_of_all_can_be_due():
    last = datetime.max.replace(tzinfo=UTC)
    assert codec.stored(NewJob(type="t", run_at=last), PARTITION, 0).job.due_at == last


def test_a_job_due_within_the_present_millisecond_is_ready():
    now = datetime(2026, 1, 1, microsecond=999, tzinfo=UTC)
    assert codec.stored(NewJob(type="t"), PARTITION, codec.micros(now)).job.state is JobState.READY
    late = codec.stored(NewJob(type="t", run_at=now + timedelta(microseconds=1)), PARTITION, codec.micros(now)).job
    assert late.state is JobState.SCHEDULED


@given(st.binary(max_size=100) | st.integers(0, 80))
def test_a_damaged_record_is_told_and_raises_nothing_else(damage):
    whole = bytes(16) + codec.body_of(NewJob(type="kind", payload=b"x" * 20, metadata={"a": "b"}))
    record = damage if isinstance(damage, bytes) else whole[:damage]
    with suppress(Damaged):
        codec.job_of(PARTITION, b"x", [b"ready", record, b"", b"", b"", b""])


@given(st.binary(min_size=1, max_size=60))
def test_a_damaged_history_is_told_and_raises_nothing_else(past):
    whole = bytes(16) + codec.body_of(NewJob(type="kind"))
    with suppress(Damaged):
        codec.job_of(PARTITION, b"x", [b"ready", whole, past, b"", b"", b""])
