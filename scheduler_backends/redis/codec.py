"""
Encoding and decoding of jobs. `records` describes the layout.

A record or history that cannot be decoded as a whole is decoded field by field, to report which fields fail and why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from json import JSONDecodeError
from struct import Struct
from struct import error as struct_error
from typing import Any, TypeVar

from scheduler.errors import ConfigError, InvalidJob
from scheduler.jobs import UNREADABLE, ErrorDetail, ErrorRecord, Job, NewJob, Priority
from scheduler.leases import Enqueued, Lease
from scheduler.limits import MAX_COUNT, MAX_DELAY, check_count, check_number
from scheduler.states import TERMINAL, JobState
from scheduler.values import maker_of
from scheduler_backends.redis.keys import Partition
from scheduler_backends.redis.records import (
    FORMAT,
    HAS_OPTIONS,
    HEAD,
    LAST_US,
    LATEST_FORMAT,
    NO_HISTORY,
    NO_OPTIONS,
    OPTIONS,
    RECORD,
    Damaged,
    Entry,
    entries_of,
    history_of,
    id_of,
    is_later,
    kind_of,
    micros,
    moment,
    moment_of,
    options_bytes,
    options_of,
    start_of_type,
)

OfState = tuple[object, ...]  # values for `_OF_STATE`
_T = TypeVar("_T")

MAX_RECORD = 256 * 1024 * 1024  # bytes; Redis itself takes no value above 512 MiB

_BODY = Struct("<BBI8sdH")  # `RECORD` without its two times
_HEAD_SIZE = RECORD.size
_MOMENT = Struct("<q")
_PRIORITIES = tuple(Priority)

# Constants, since attribute access on an enum is slow and these are needed for every job.
_READY, _SCHEDULED, _LEASED, _SUCCEEDED = JobState.READY, JobState.SCHEDULED, JobState.LEASED, JobState.SUCCEEDED

_FIELDS = (
    "id", "queue", "type", "payload", "state", "priority", "run_at", "created_at", "max_retries", "timeout",
    "queue_version", "partition",
)  # fmt: skip  # of every job, in the order of the two calls below
_OF_STATE = ("due_at", "finished_at", "lease_owner", "lease_expires_at", "result")
_new_job = maker_of(Job, *_FIELDS, "due_at")
_stored_job = maker_of(Job, *_FIELDS, "attempts", "crashes", "errors", *_OF_STATE)
_lease = maker_of(Lease, "job", "token", "expires_at")
_enqueued = maker_of(Enqueued, "job", "is_new")
_set = object.__setattr__


def body_of(job: NewJob) -> bytes:
    """Return the record of *job* without its two times."""
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
    """Return the due time of *job* in the format of the `when` argument of enqueue.lua."""
    if job.run_at is not None:
        us = micros(job.run_at)
        return b"@%b%d" % (_MOMENT.pack(us), -(-us // 1000))
    return b"+%d" % round(job.delay * 1_000_000) if job.delay else b""


def stored(job: NewJob, partition: Partition, now_us: int) -> Enqueued:
    """Return the result for a job that enqueue.lua has just stored. The times are calculated as in the script."""
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


Unread = tuple[bytes, bytes, Job]  # id, record, and the job with the fields that can be read


def leases_of(  # noqa: PLR0917 - called for every batch
    partition: Partition,
    ids: Sequence[bytes],
    records: Sequence[bytes],
    histories: Sequence[bytes],
    worker: str,
    token: str,
    expires_ms: bytes,
) -> tuple[list[Lease], list[Unread]]:
    """
    Return the leases in an answer of lease.lua, and the leased jobs that cannot be read.

    Args:
        partition: The partition that was asked.
        ids: The ids of the leased jobs.
        records: The record of each job, in the order of *ids*.
        histories: Ids and histories in turn, only of jobs that have one.
        worker: The id of the worker that leases.
        token: The token of the lease call.
        expires_ms: When the leases expire, in milliseconds since 1970, as digits.
    """
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
    """Return the job in *view*, a result of prelude/view.lua. `Job.unreadable` names the fields that cannot be read."""
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
    of_state: OfState,
) -> Job:
    try:
        created_us, run_us, form, level, max_retries, _nonce, timeout, of_type = RECORD.unpack_from(record)
        start = _HEAD_SIZE
        if has_options := level & HAS_OPTIONS:
            level -= HAS_OPTIONS
            start = start_of_type(record)
        end = start + of_type
        if form != FORMAT or end > len(record) or max_retries > MAX_COUNT or not 0.0 < timeout <= MAX_DELAY:
            return _salvage(partition, raw_id, record, past, state, of_state)
        attempts, crashes, errors = history_of(past) if past else NO_HISTORY
        # A history counts a lease when it ends, and never one that was completed: see prelude/history.lua.
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
    except Exception:  # noqa: BLE001 - decoders raise any error; `_salvage` finds the fields that fail
        return _salvage(partition, raw_id, record, past, state, of_state)
    return job


def later_part(record: bytes) -> str | None:
    """
    Return the format or option in *record* that requires a later release, or None.

    Damaged records also return None. In every format, a record begins with two times and the number of the format.
    """
    if len(record) < HEAD or not FORMAT <= record[16] <= LATEST_FORMAT:
        return None
    try:
        moment(int.from_bytes(record[:8], "little", signed=True))
        moment(int.from_bytes(record[8:16], "little", signed=True))
        if record[16] > FORMAT:
            return f"format {record[16]}"
        return next((name for name, decode, _ in entries_of(record) if decode is is_later), None)
    except (OverflowError, Damaged, struct_error):
        return None


def _salvage(  # noqa: PLR0917 - as `_read`
    partition: Partition, raw_id: bytes, record: bytes, past: bytes | None, state: JobState, of_state: OfState
) -> Job:
    """Return the job, decoded field by field. If a field cannot be read, an error that names it is added."""
    reasons: dict[str, str] = {}

    def read(names: str, neutral: _T, reader: Callable[..., _T], *args: object) -> _T:
        try:
            return reader(*args)
        except Exception as error:  # noqa: BLE001 - decoders raise any error
            reasons.update(dict.fromkeys(names.split(), _reason(error, names)))
            return neutral

    is_record = len(record) >= RECORD.size and record[16] == FORMAT
    whole = record if is_record else _NO_RECORD
    created_us, run_us, _, level, max_retries, _, timeout, of_type = RECORD.unpack_from(whole)
    kind, payload = read("type payload", (b"", b""), _type_and_payload, whole, of_type)
    values: dict[str, Any] = {
        "type": "" if "type" in reasons else read("type", "", kind_of, kind),
        "payload": payload,
        "priority": read("priority", Priority.NORMAL, Priority, level & ~HAS_OPTIONS),
        "run_at": read("run_at", moment(0), moment, run_us),
        "created_at": read("created_at", moment(0), moment, created_us),
        "max_retries": read("max_retries", 0, check_count, "max_retries", max_retries),
        "timeout": read("timeout", 0.0, lambda: check_number("timeout", timeout, above=0.0)),
    }
    none: list[Entry] = []
    for name, decode, raw in read(" ".join(OPTIONS), none, lambda: list(entries_of(whole))):
        value = read(name, None, decode, raw)
        if value is not None:  # otherwise the field keeps its default
            values[name] = value
    if not is_record:
        later = later_part(record)
        why = f"has {later}, of a later release; this one reads {FORMAT}" if later else "is not a record"
        reasons.update(dict.fromkeys((*values, *OPTIONS), f"cannot be read: the record {why}"))
    values["id"] = read("id", raw_id.decode(errors="backslashreplace"), id_of, raw_id)
    values.update(zip(_OF_STATE, of_state, strict=True))
    attempts, crashes, errors = read("attempts crashes errors", NO_HISTORY, history_of, past) if past else NO_HISTORY
    attempts += state is _LEASED or state is _SUCCEEDED
    if reasons:
        # The error is not stored: record and history stay unchanged for a release that can read them.
        names: dict[str, list[str]] = {}
        for name, reason in reasons.items():
            names.setdefault(reason, []).append(name)
        message = "; ".join(f"{', '.join(fields)} {reason}" for reason, fields in names.items())
        at = values["finished_at"] or values["due_at"] or values["run_at"]
        errors = (*errors, ErrorRecord(attempt=attempts, at=at, kind=UNREADABLE, message=message))
    return Job(
        queue=partition.queue, queue_version=partition.version, partition=partition.number, state=state,
        attempts=attempts, crashes=crashes, errors=errors, unreadable=tuple(reasons), **values,
    )  # fmt: skip  # as above


_NO_RECORD = RECORD.pack(
    0, 0, FORMAT, Priority.NORMAL, 0, bytes(8), 0.0, 0
)  # the defaults for a record that cannot be read


def _type_and_payload(record: bytes, of_type: int) -> tuple[bytes, bytes]:
    start = start_of_type(record)
    end = start + of_type
    if end > len(record):
        raise Damaged("is cut short")
    return record[start:end], record[end:]


def _reason(error: Exception, names: str) -> str:
    """Return a description of *error* without the text of the decoder, which may quote job data."""
    if isinstance(error, ConfigError | InvalidJob):
        return error.message if error.field in names else f"({error.field}) {error.message}"
    if isinstance(error, Damaged):
        return str(error)
    return next((words for kind, words in _REASONS if isinstance(error, kind)), f"({type(error).__name__}) is damaged")


_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (UnicodeDecodeError, "is not UTF-8"),
    (JSONDecodeError, "is not JSON"),
    (RecursionError, "is nested too deeply"),
    (OverflowError, "lies outside the years 1 to 9999"),
    (struct_error, "is cut short"),
)


def error_text(error: ErrorDetail | None) -> bytes:
    """Return *error* as it is stored in a history: its texts joined by NUL, which none contains. Empty for None."""
    return f"{error.kind}\0{error.message}\0{error.traceback}".encode() if error else b""


def known(job: NewJob, partition: Partition, view: Sequence[bytes]) -> Enqueued:
    """
    Return the result for a job whose id is already stored.

    It counts as new if the stored job was made from the same `NewJob`: then this enqueue is a retry of the one before.
    """
    is_repeat = view[1][HEAD - 8 : HEAD] == bytes.fromhex(job.nonce)
    return _enqueued(job_of(partition, job.id.encode(), view), is_repeat)
