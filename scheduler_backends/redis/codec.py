"""
How a job is written. Only this module and `records` deal with milliseconds and bytes.

A record is opaque to Redis except for its fixed head, of which scripts read the level, max_retries and the times
(prelude/record.lua). enqueue.lua puts the two times before the body that is sent. Id, queue, version and partition are
not part of it: they are in the key and the field.

    created us, run_at us | format, level, max_retries, nonce, timeout, sizes of type and extra | type, extra, payload
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from struct import Struct

from scheduler.errors import InvalidJob
from scheduler.jobs import ErrorDetail, Job, NewJob, Priority
from scheduler.leases import Enqueued, Lease
from scheduler.limits import MAX_COUNT, MAX_DELAY
from scheduler.states import JobState
from scheduler.values import maker_of
from scheduler_backends.redis.keys import Partition
from scheduler_backends.redis.records import (
    FORMAT,
    LAST_US,
    NO_EXTRA,
    NO_HISTORY,
    RECORD,
    Damaged,
    Unread,
    extra_of,
    history_of,
    id_of,
    kind_of,
    micros,
    moment,
    moment_of,
)
from scheduler_backends.redis.salvage import salvage

MAX_RECORD = 256 * 1024 * 1024  # bytes; Redis itself takes no value above 512 MiB

_BODY = Struct("<BBI8sdHI")
_MOMENT = Struct("<q")
_PRIORITIES = tuple(Priority)

# An enum's own look-up of a member is slow, and these are needed for every job.
_READY, _SCHEDULED, _LEASED, _SUCCEEDED = JobState.READY, JobState.SCHEDULED, JobState.LEASED, JobState.SUCCEEDED

_new_job = maker_of(
    Job,
    *(
        "id",
        "queue",
        "type",
        "payload",
        "state",
        "priority",
        "run_at",
        "created_at",
        "max_retries",
        "timeout",
        "due_at",
    ),
    *("retry_policy", "idempotency_key", "metadata", "queue_version", "partition"),
)
_lease = maker_of(Lease, "job", "token", "expires_at")
_enqueued = maker_of(Enqueued, "job", "is_new")


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
    """Return the result for a job that enqueue.lua has just stored. It calculates the times in the same way."""
    now = run_at = moment(now_us)
    state, due_at = _READY, None
    if job.run_at is not None or job.delay:
        if job.run_at is not None:
            run_at, run_us = job.run_at, micros(job.run_at)
        else:
            run_us = min(now_us + round((job.delay or 0.0) * 1_000_000), LAST_US)
            run_at = moment(run_us)
        due_ms = -(-run_us // 1000)
        if due_ms > now_us // 1000:
            state, due_at = _SCHEDULED, moment_of(b"%d" % due_ms)
    made = _new_job(
        *(
            job.id,
            job.queue,
            job.type,
            job.payload,
            state,
            job.priority,
            run_at,
            now,
            job.max_retries,
            job.timeout,
            due_at,
        ),
        *(job.retry_policy, job.idempotency_key, dict(job.metadata) if job.metadata else {}),
        *(partition.version, partition.number),
    )
    return _enqueued(made, True)


def leases_of(  # noqa: PLR0917 - called for every batch
    partition: Partition,
    ids: Sequence[bytes],
    records: Sequence[bytes],
    histories: Sequence[bytes],
    worker: str,
    token: str,
    expires_ms: bytes,
) -> tuple[list[Lease], list[Unread]]:
    """Return the leases that lease.lua gave, and id, record and history of the jobs that cannot be read."""
    expires_at = moment_of(expires_ms)
    pasts = dict(zip(histories[::2], histories[1::2], strict=True))
    leases: list[Lease] = []
    damaged: list[Unread] = []
    for raw, record in zip(ids, records, strict=True):
        past = pasts.get(raw) if pasts else None
        try:
            job = _read(partition, raw, record, past, _LEASED, None, None, worker, expires_at, None)
        except Exception:  # noqa: BLE001 - whatever a decoder raises: one bad record must not cost its neighbours
            damaged.append((raw, record, past))
        else:
            leases.append(_lease(job, token, expires_at))
    return leases, damaged


def job_of(partition: Partition, raw_id: bytes, view: Sequence[bytes]) -> Job:
    """The job of a script's view of it (prelude/view.lua); `Job.unreadable` names what cannot be read."""
    name, record, past, time_ms, worker, answer = view
    state = JobState(name.decode())
    due_at = finished_at = owner = expires_at = None
    if state in (JobState.SCHEDULED, JobState.RETRY_WAIT):
        due_at = moment_of(time_ms)
    elif state is JobState.LEASED:
        owner, expires_at = worker.decode(errors="replace"), moment_of(time_ms)
    elif state is not JobState.READY:
        finished_at = moment_of(time_ms)
    result = answer[1:] if answer else None
    try:
        return _read(partition, raw_id, record, past, state, due_at, finished_at, owner, expires_at, result)
    except Exception:  # noqa: BLE001 - as above
        job = Job(
            id="", queue=partition.queue, type="", payload=b"", state=state, priority=Priority.NORMAL,
            run_at=moment(0), created_at=moment(0), max_retries=0, timeout=0.0, due_at=due_at, finished_at=finished_at,
            lease_owner=owner, lease_expires_at=expires_at, result=result, queue_version=partition.version,
            partition=partition.number,
        )  # fmt: skip  # as short as below
        return salvage(job, raw_id, record, past)


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
    created_us, run_us, form, level, max_retries, _nonce, timeout, of_type, of_extra = RECORD.unpack_from(record)
    kind_end = 44 + of_type
    extra_end = kind_end + of_extra
    if form != FORMAT or extra_end > len(record) or max_retries > MAX_COUNT or not 0.0 < timeout <= MAX_DELAY:
        raise Damaged
    policy, key, metadata = extra_of(record[kind_end:extra_end]) if of_extra else (*NO_EXTRA, {})
    attempts, crashes, errors = history_of(past) if past else NO_HISTORY
    # The present lease is not counted until it ends, and a completed one never is: see prelude/history.lua.
    if state is _LEASED or state is _SUCCEEDED:
        attempts += 1
    created_at = moment(created_us)
    return _stored_job(
        id_of(raw_id), partition.queue, kind_of(record[44:kind_end]), record[extra_end:], state,
        _PRIORITIES[level], created_at if run_us == created_us else moment(run_us), created_at, max_retries,
        timeout, due_at, attempts, crashes, policy, key, metadata, finished_at, errors, owner, expires_at, result,
        partition.version, partition.number,
    )  # fmt: skip  # as the names just below


_stored_job = maker_of(
    Job,
    "id", "queue", "type", "payload", "state",
    "priority", "run_at", "created_at", "max_retries",
    "timeout", "due_at", "attempts", "crashes", "retry_policy", "idempotency_key", "metadata", "finished_at", "errors",
    "lease_owner", "lease_expires_at", "result", "queue_version", "partition",
)  # fmt: skip


def error_text(error: ErrorDetail | None) -> bytes:
    """An error as scripts keep it, empty for none. No text of it holds NUL."""
    return f"{error.kind}\0{error.message}\0{error.traceback}".encode() if error else b""


def known(job: NewJob, partition: Partition, view: Sequence[bytes]) -> Enqueued:
    """Return the result for a job whose id is taken: new all the same if it was made from the same NewJob."""
    return _enqueued(job_of(partition, job.id.encode(), view), view[1][22:30] == bytes.fromhex(job.nonce))
