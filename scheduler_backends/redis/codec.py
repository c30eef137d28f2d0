"""How a job becomes a record, and a record a job. `records` has the layout."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from scheduler.errors import InvalidJob
from scheduler.jobs import ErrorDetail, Job, NewJob, Priority
from scheduler.leases import Enqueued, Lease
from scheduler.limits import MAX_COUNT, MAX_DELAY
from scheduler.states import TERMINAL, JobState
from scheduler.values import maker_of
from scheduler_backends.redis.keys import Partition
from scheduler_backends.redis.records import (
    FORMAT,
    HAS_OPTIONS,
    HEAD,
    LAST_US,
    NO_HISTORY,
    NO_OPTIONS,
    OPTIONS,
    RECORD,
    entries_of,
    history_of,
    id_of,
    kind_of,
    micros,
    moment,
    moment_of,
    options_bytes,
    options_of,
    start_of_type,
)
from scheduler_backends.redis.salvage import OF_STATE, salvage

MAX_RECORD = 256 * 1024 * 1024  # bytes; Redis itself takes no value above 512 MiB

_BODY = Struct("<BBI8sdH")  # `RECORD` without its two times
_HEAD_SIZE = RECORD.size
_MOMENT = Struct("<q")
_PRIORITIES = tuple(Priority)

# An enum's own look-up of a member is slow, and these are needed for every job.
_READY, _SCHEDULED, _LEASED, _SUCCEEDED = JobState.READY, JobState.SCHEDULED, JobState.LEASED, JobState.SUCCEEDED

_FIELDS = (
    "id", "queue", "type", "payload", "state", "priority", "run_at", "created_at", "max_retries", "timeout",
    "queue_version", "partition",
)  # fmt: skip  # of every job, in the order of the two calls below
_new_job = maker_of(Job, *_FIELDS, "due_at")
_stored_job = maker_of(Job, *_FIELDS, "attempts", "crashes", "errors", *OF_STATE)
_lease = maker_of(Lease, "job", "token", "expires_at")
_enqueued = maker_of(Enqueued, "job", "is_new")
_set = object.__setattr__


def body_of(job: NewJob) -> bytes:
    """All of a record but its two times."""
    if len(job.payload) > MAX_RECORD:
        raise InvalidJob("payload", f"must not exceed {MAX_RECORD} bytes")
    kind = job.type.encode()
    level: int = job.priority
    options = b""
    if (values := options_of(job)) != NO_OPTIONS:
        level, options = level | HAS_OPTIONS, options_bytes(values)
    head = _BODY.pack(FORMAT, level, job.max_retries, bytes.fromhex(job.nonce), job.timeout, len(kind))
    return head + options + kind + job.payload


def when_of(job: NewJob) -> bytes:
    """When the job is due, as enqueue.lua reads it."""
    if job.run_at is not None:
        us = micros(job.run_at)
        return b"@%b%d" % (_MOMENT.pack(us), -(-us // 1000))
    return b"+%d" % round(job.delay * 1_000_000) if job.delay else b""


def stored(job: NewJob, partition: Partition, now_us: int) -> Enqueued:
    """Return the result for a job that enqueue.lua has just stored. It calculates the times in the same way."""
    now = run_at = moment(now_us)
    state, due_at = _READY, None
    if job.run_at is not None or job.delay:
        run_us = micros(job.run_at) if job.run_at else min(now_us + round((job.delay or 0.0) * 1_000_000), LAST_US)
        run_at = moment(run_us)
        due_ms = -(-run_us // 1000)
        if due_ms > now_us // 1000:
            state, due_at = _SCHEDULED, moment_of(b"%d" % due_ms)
    made = _new_job(
        job.id, job.queue, job.type, job.payload, state, job.priority, run_at, now, job.max_retries, job.timeout,
        partition.version, partition.number, due_at,
    )  # fmt: skip  # as _FIELDS
    if (values := options_of(job)) != NO_OPTIONS:
        for name, value in zip(OPTIONS, values, strict=True):
            _set(made, name, dict(value) if isinstance(value, dict) else value)
    return _enqueued(made, True)


Unread = tuple[bytes, bytes, Job]  # id, record, and what can be read


def leases_of(  # noqa: PLR0917 - called for every batch
    partition: Partition,
    ids: Sequence[bytes],
    records: Sequence[bytes],
    histories: Sequence[bytes],
    worker: str,
    token: str,
    expires_ms: bytes,
) -> tuple[list[Lease], list[Unread]]:
    """Return the leases that lease.lua gave, and the jobs that cannot be read."""
    expires_at = moment_of(expires_ms)
    of_state = (None, None, worker, expires_at, None)
    pasts = dict(zip(histories[::2], histories[1::2], strict=True))
    leases: list[Lease] = []
    damaged: list[Unread] = []
    for raw, record in zip(ids, records, strict=True):
        job = _read(partition, raw, record, pasts.get(raw) if pasts else None, _LEASED, of_state)
        if job.unreadable:
            damaged.append((raw, record, job))
        else:
            leases.append(_lease(job, token, expires_at))
    return leases, damaged


def job_of(partition: Partition, raw_id: bytes, view: Sequence[bytes]) -> Job:
    """The job of a script's view of it (prelude/view.lua); `Job.unreadable` names what cannot be read."""
    name, record, past, time_ms, worker, result = view
    state = JobState(name.decode())
    time = None if state is _READY else moment_of(time_ms)
    of_state = (
        time if state in (JobState.SCHEDULED, JobState.RETRY_WAIT) else None,
        time if state in TERMINAL else None,
        worker.decode(errors="replace") if state is _LEASED else None,
        time if state is _LEASED else None,
        result[1:] if result else None,
    )
    return _read(partition, raw_id, record, past, state, of_state)


def _read(  # noqa: PLR0917 - called for every job: keywords would cost a tenth
    partition: Partition,
    raw_id: bytes,
    record: bytes,
    past: bytes | None,
    state: JobState,
    of_state: tuple[object, ...],
) -> Job:
    try:
        created_us, run_us, form, level, max_retries, _nonce, timeout, of_type = RECORD.unpack_from(record)
        start = _HEAD_SIZE
        if has_options := level & HAS_OPTIONS:
            level -= HAS_OPTIONS
            start = start_of_type(record)
        end = start + of_type
        if form != FORMAT or end > len(record) or max_retries > MAX_COUNT or not 0.0 < timeout <= MAX_DELAY:
            return salvage(partition, raw_id, record, past, state, of_state)
        attempts, crashes, errors = history_of(past) if past else NO_HISTORY
        # The present lease is not counted until it ends, and a completed one never is: see prelude/history.lua.
        if state is _LEASED or state is _SUCCEEDED:
            attempts += 1
        created_at = moment(created_us)
        job: Job = _stored_job(
            id_of(raw_id), partition.queue, kind_of(record[start:end]), record[end:], state, _PRIORITIES[level],
            created_at if run_us == created_us else moment(run_us), created_at, max_retries, timeout,
            partition.version, partition.number, attempts, crashes, errors, *of_state,
        )  # fmt: skip  # as _FIELDS
        if has_options:
            for name, decode, raw in entries_of(record):
                _set(job, name, decode(raw))
    except Exception:  # noqa: BLE001 - whatever a decoder raises; field by field it is found out what cannot be read
        return salvage(partition, raw_id, record, past, state, of_state)
    return job


def error_text(error: ErrorDetail | None) -> bytes:
    """An error as scripts keep it, empty for none. No text of it holds NUL."""
    return f"{error.kind}\0{error.message}\0{error.traceback}".encode() if error else b""


def known(job: NewJob, partition: Partition, view: Sequence[bytes]) -> Enqueued:
    """Return the result for a job whose id is taken: new all the same if it was made from the same NewJob."""
    is_repeat = view[1][HEAD - 8 : HEAD] == bytes.fromhex(job.nonce)
    return _enqueued(job_of(partition, job.id.encode(), view), is_repeat)
