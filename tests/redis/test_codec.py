"""Records: what is written is read back, and what was damaged says so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from scheduler.jobs import UNREADABLE, NewJob, Priority
from scheduler.limits import is_possible_id
from scheduler.retry import RetryPolicy
from scheduler.states import JobState
from scheduler_backends.redis import codec, records
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


@given(st.text(max_size=5) | st.text(min_size=195, max_size=205))
def test_an_id_is_accepted_if_a_job_can_have_it(text):
    raw = text.encode(errors="surrogatepass")
    try:
        accepted = records.id_of(raw) == text
    except (records.Damaged, UnicodeDecodeError):
        accepted = False
    assert accepted == is_possible_id(text)


@given(st.datetimes(timezones=st.just(UTC)))
def test_every_moment_is_kept_to_the_microsecond(moment):
    assert records.moment(records.micros(moment)) == moment


def test_the_last_moment_of_all_can_be_due():
    last = datetime.max.replace(tzinfo=UTC)
    assert codec.stored(NewJob(type="t", run_at=last), PARTITION, 0).job.due_at == last


def test_a_job_due_within_the_present_millisecond_is_ready():
    now = datetime(2026, 1, 1, microsecond=999, tzinfo=UTC)
    assert codec.stored(NewJob(type="t"), PARTITION, records.micros(now)).job.state is JobState.READY
    late = codec.stored(NewJob(type="t", run_at=now + timedelta(microseconds=1)), PARTITION, records.micros(now)).job
    assert late.state is JobState.SCHEDULED


WHOLE = bytes(16) + codec.body_of(
    NewJob(type="kind", payload=b"x" * 20, metadata={"a": "b"}, idempotency_key="k", retry_policy=RetryPolicy())
)
damaged_records = (
    st.binary(max_size=100)
    | st.integers(0, len(WHOLE)).map(lambda size: WHOLE[:size])
    | st.tuples(st.integers(0, len(WHOLE) - 1), st.binary(min_size=1, max_size=8)).map(
        lambda change: WHOLE[: change[0]] + change[1] + WHOLE[change[0] + len(change[1]) :]
    )
)


@given(record=damaged_records, past=st.binary(max_size=60), state=st.sampled_from(JobState))
def test_a_job_either_can_be_read_or_says_what_cannot(record, past, state):
    """Whatever the bytes are, reading raises nothing, and a lease call leases it exactly if nothing is unreadable."""
    job = codec.job_of(PARTITION, b"x", [state.encode(), record, past, b"0", b"", b""])
    assert (job.id, job.state) == ("x", state)
    leases, damaged = codec.leases_of(PARTITION, [b"x"], [record], [b"x", past], "w", "0" * 32, b"0")
    assert len(leases) == (not job.unreadable)
    assert [(raw, whole) for raw, whole, _ in damaged] == ([(b"x", record)] if job.unreadable else [])
    if job.unreadable:
        assert job.last_error.kind == UNREADABLE
        assert all(field in job.last_error.message for field in job.unreadable)


@given(st.binary(max_size=5), st.sampled_from(JobState))
def test_a_score_may_be_any(score, state):
    """An index holds what anybody has put there."""
    for told in (b"inf", b"-inf", b"nan", b"-nan", b"1e300", b"-1e300", b"253402300799999.5", score):
        job = codec.job_of(PARTITION, b"x", [state.encode(), WHOLE, b"", told, b"\xff", b""])
        assert not job.unreadable


def test_an_id_that_is_no_text_is_shown_as_what_it_is():
    job = codec.job_of(PARTITION, b"a\xff", [b"ready", WHOLE, b"", b"", b"", b""])
    assert job.id == "a\\xff"
    assert job.unreadable == ("id",)
    assert job.payload == b"x" * 20
