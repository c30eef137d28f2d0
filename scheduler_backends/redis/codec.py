"""
How a job is written: the only room that knows milliseconds and bytes.

A record is opaque to Redis except for its fixed head, of which scripts read the level, max_retries and the times
(prelude/record.lua). The store puts the two times before the body that is sent. Neither id, queue, version nor
partition stand in it: the key and the field say those.

    created us, run_at us | format, level, max_retries, nonce, timeout, sizes of type and extra | type, extra, payload
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from struct import Struct
from struct import error as struct_error
from typing import cast

from scheduler.errors import InvalidJob
from scheduler.jobs import ErrorDetail, ErrorRecord, Job, NewJob, Priority
from scheduler.leases import Enqueued, Lease
from scheduler.retry import RetryPolicy
from scheduler.states import JobState
from scheduler.values import maker_of
from scheduler_backends.redis.keys import Partition

FORMAT = 1
MAX_RECORD = 256 * 1024 * 1024  # bytes; Redis itself takes no value above 512 MiB

_BODY = Struct("<BBI8sdHI")
_RECORD = Struct("<qqBBI8sdHI")
_HISTORY = Struct("<IIB")
_ERROR = Struct("<IqI")
_MOMENT = Struct("<q")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PRIORITIES = tuple(Priority)
_NO_HISTORY = (0, 0, ())

# An enum's own look-up of a member is slow; these are met for every job.
_READY, _SCHEDULED, _LEASED, _SUCCEEDED = JobState.READY, JobState.SCHEDULED, JobState.LEASED, JobState.SUCCEEDED

# The fields in their order; checks nothing and knows no defaults.
_job = maker_of(Job)
_lease = maker_of(Lease)
_enqueued = maker_of(Enqueued)


class Damaged(Exception):  # noqa: N818 - says what the record is
    """A record or a history that cannot be read; says why."""


def micros(moment: datetime) -> int:
    """Whole microseconds since 1970, exact for every datetime."""
    passed = moment - _EPOCH
    return (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds


@lru_cache(maxsize=64)  # jobs of one batch share their moments
def moment(us: int) -> datetime:
    """The datetime of so many microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=us)


def body_of(job: NewJob) -> bytes:
    """All of a record but its two times."""
    kind = job.type.encode()
    extra = b""
    if job.metadata or job.idempotency_key is not None or job.retry_policy is not None:
        extra = json.dumps(
            {
                "key": job.idempotency_key,
                "metadata": job.metadata,
                "retry": job.retry_policy.to_data() if job.retry_policy else None,
            },
            ensure_ascii=False,
            separators=(",", ":"),
        ).encode()
    head = _BODY.pack(
        FORMAT, job.priority, job.max_retries, bytes.fromhex(job.nonce), job.timeout, len(kind), len(extra)
    )
    if len(job.payload) > MAX_RECORD:
        raise InvalidJob("payload", f"must not exceed {MAX_RECORD} bytes")
    return head + kind + extra + job.payload


def when_of(job: NewJob) -> bytes:
    """When the job is due, as enqueue.lua reads it."""
    if job.run_at is not None:
        us = micros(job.run_at)
        return b"@%b%d" % (_MOMENT.pack(us), -(-us // 1000))
    return b"+%d" % round(job.delay * 1_000_000) if job.delay else b""


def stored(job: NewJob, partition: Partition, now_us: int) -> Enqueued:
    """The answer for a job that enqueue.lua has just stored; the same sums as there."""
    now = run_at = moment(now_us)
    state, due_at = _READY, None
    if job.run_at is not None or job.delay:
        if job.run_at is not None:
            run_at, run_us = job.run_at, micros(job.run_at)
        else:
            run_us = now_us + round((job.delay or 0.0) * 1_000_000)
            run_at = moment(run_us)
        due_ms = -(-run_us // 1000)
        if due_ms > now_us // 1000:
            state, due_at = _SCHEDULED, _due(due_ms)
    made = _job(
        job.id, job.queue, job.type, job.payload, state, job.priority, run_at, now, job.max_retries, job.timeout,
        due_at, 0, 0, job.retry_policy, job.idempotency_key, dict(job.metadata) if job.metadata else {}, None, (), None,
        None, None, partition.version, partition.number, (),
    )  # fmt: skip  # the fields of Job in their order
    return _enqueued(made, True)


def _due(ms: int) -> datetime:
    try:
        return moment(ms * 1000)
    except OverflowError:  # the last millisecond of the year 9999, rounded up
        return datetime.max.replace(tzinfo=UTC)


def leases_of(  # noqa: PLR0917 - called for every batch
    partition: Partition,
    ids: Sequence[bytes],
    records: Sequence[bytes],
    histories: Sequence[bytes],
    worker: str,
    token: str,
    expires_us: int,
) -> tuple[list[Lease], list[tuple[bytes, str]]]:
    """The leases that lease.lua answered, and ids with reasons of the jobs that cannot be read."""
    expires_at = moment(expires_us)
    pasts = dict(zip(histories[::2], histories[1::2], strict=True))
    leases: list[Lease] = []
    damaged: list[tuple[bytes, str]] = []
    for raw, record in zip(ids, records, strict=True):
        try:
            past = pasts.get(raw) if pasts else None
            job = _read(partition, raw, record, past, _LEASED, None, None, worker, expires_at, None)
        except Damaged as error:
            damaged.append((raw, str(error)))
        else:
            leases.append(_lease(job, token, expires_at))
    return leases, damaged


def job_of(partition: Partition, raw_id: bytes, view: Sequence[bytes]) -> Job:
    """The job of a script's view of it (prelude/view.lua)."""
    name, record, past, time_ms, worker, result = view
    state = JobState(name.decode())
    due_at = finished_at = owner = expires_at = None
    if state in (JobState.SCHEDULED, JobState.RETRY_WAIT):
        due_at = _due(int(float(time_ms)))
    elif state is JobState.LEASED:
        owner, expires_at = worker.decode(), moment(int(float(time_ms)) * 1000)
    elif state is not JobState.READY:
        finished_at = moment(int(float(time_ms)) * 1000)
    return _read(
        partition, raw_id, record, past, state, due_at, finished_at, owner, expires_at, result[1:] if result else None
    )


def _read(  # noqa: PLR0917 - called for every job: keywords would cost a tenth
    partition: Partition,
    raw_id: bytes,
    record: bytes,
    past: bytes | None,
    state: JobState,
    due_at: datetime | None,
    finished_at: datetime | None,
    owner: str | None,
    expires_at: datetime | None,
    result: bytes | None,
) -> Job:
    try:
        created_us, run_us, form, level, max_retries, _nonce, timeout, of_type, of_extra = _RECORD.unpack_from(record)
        if form != FORMAT:
            raise Damaged(f"its record has the unknown format {form}")
        kind_end = 44 + of_type
        extra_end = kind_end + of_extra
        if extra_end > len(record):
            raise Damaged("its record is cut short")
        policy, key, metadata = _extra(record[kind_end:extra_end]) if of_extra else (None, None, {})
        attempts, crashes, errors = _history(past) if past else _NO_HISTORY
        # The present lease is not counted until it ends, and a completed one never is: see prelude/history.lua.
        if state is _LEASED or state is _SUCCEEDED:
            attempts += 1
        created_at = moment(created_us)
        return _job(
            raw_id.decode(), partition.queue, record[44:kind_end].decode(), record[extra_end:], state,
            _PRIORITIES[level], created_at if run_us == created_us else moment(run_us), created_at, max_retries,
            timeout, due_at, attempts, crashes, policy, key, metadata, finished_at, errors, owner, expires_at, result,
            partition.version, partition.number, (),
        )  # fmt: skip  # the fields of Job in their order
    except (struct_error, ValueError, IndexError, OverflowError) as error:
        raise Damaged(f"its record cannot be read: {error}") from error


def _extra(text: bytes) -> tuple[RetryPolicy | None, str | None, dict[str, str]]:
    try:
        data = json.loads(text)
        retry = data["retry"]
        return _policy(json.dumps(retry)) if retry else None, data["key"], data["metadata"]
    except (KeyError, TypeError) as error:
        raise Damaged(f"its record cannot be read: {error!r}") from error


@lru_cache(maxsize=256)  # few policies serve many jobs
def _policy(text: str) -> RetryPolicy:
    return RetryPolicy.from_data(json.loads(text))


def error_text(error: ErrorDetail | None) -> bytes:
    """An error as scripts keep it, empty for none. No text of it holds NUL."""
    return f"{error.kind}\0{error.message}\0{error.traceback}".encode() if error else b""


def _history(value: bytes) -> tuple[int, int, tuple[ErrorRecord, ...]]:
    try:
        attempts, crashes, count = _HISTORY.unpack_from(value)
        errors = []
        place = _HISTORY.size
        for _ in range(count):
            size, at_us, attempt = _ERROR.unpack_from(value, place)
            text = value[place + _ERROR.size : place + 4 + size].decode()
            kind, message, traceback = text.split("\0")
            errors.append(
                ErrorRecord(attempt=attempt, at=moment(at_us), kind=kind, message=message, traceback=traceback)
            )
            place += 4 + size
    except (struct_error, ValueError) as error:
        raise Damaged(f"its history cannot be read: {error}") from error
    return cast("int", attempts), cast("int", crashes), tuple(errors)


def known(job: NewJob, partition: Partition, view: Sequence[bytes]) -> Enqueued:
    """The answer for a job whose id is there already: new all the same where it came from this very NewJob."""
    return _enqueued(job_of(partition, job.id.encode(), view), view[1][22:30] == bytes.fromhex(job.nonce))
