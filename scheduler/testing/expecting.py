"""Assertions about enqueued jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from typing import Final

from scheduler.backend import Backend
from scheduler.jobs import DEFAULT_QUEUE, Job
from scheduler.limits import check_kind
from scheduler.serializers import JsonSerializer, Serializer
from scheduler.states import LIVE, JobState

_ANY: Final = object()
_FIELDS: Final = frozenset(field.name for field in fields(Job)) - {"type", "payload", "queue"}
_SHOWN: Final = 10  # jobs in the message of a failure
_PAGE: Final = 1_000


def assert_enqueued(
    backend: Backend,
    type: str,
    payload: object = _ANY,
    *,
    queue: str = DEFAULT_QUEUE,
    count: int | None = None,
    serializer: Serializer | None = None,
    **expected: object,
) -> Sequence[Job]:
    """
    Assert that *queue* holds unfinished jobs of this type and with these fields, and return them.

    Args:
        backend: The backend to look in.
        type: The job type.
        payload: The expected payload. Bytes are compared with the stored bytes, any other value with the decoded
            payload. If left out, the payload is not compared.
        queue: The queue to look in.
        count: The exact number of matching jobs. None = at least one.
        serializer: Decodes the stored payloads. None = JSON.
        **expected: Other fields of `Job` and their values, such as ``priority=Priority.HIGH``.

    Raises:
        AssertionError: The number of matching jobs differs. The message lists up to ten jobs of the queue.
        ConfigError: An argument is invalid.
        TypeError: `Job` has no field of a name in *expected*.
    """
    unknown = expected.keys() - _FIELDS
    if unknown:
        raise TypeError(f"a job has no field {', '.join(sorted(unknown))}")
    decode = (JsonSerializer() if serializer is None else check_kind("serializer", serializer, Serializer)).loads
    live = [job for state in sorted(LIVE) for job in _listed(backend, queue, state)]
    found = [
        job
        for job in live
        if job.type == type
        and (payload is _ANY or payload == (job.payload if isinstance(payload, bytes) else _decoded(job, decode)))
        and all(getattr(job, name) == value for name, value in expected.items())
    ]
    if len(found) != count if count is not None else not found:
        wanted = "a job" if count is None else f"{count} jobs"
        raise AssertionError(
            f"expected {wanted} of type {type!r} with the given fields in queue {queue!r}, found {len(found)}; "
            f"it holds {len(live)}{''.join(_shown(job) for job in live[:_SHOWN])}"
        )
    return found


def _decoded(job: Job, decode: Callable[[bytes], object]) -> object:
    try:
        return decode(job.payload)
    except Exception:  # noqa: BLE001 - a payload that the serializer cannot decode equals nothing
        return _ANY


def _listed(backend: Backend, queue: str, state: JobState) -> Iterator[Job]:
    cursor = None
    while True:
        page = backend.list(queue, state, cursor=cursor, limit=_PAGE)
        yield from page.jobs
        cursor = page.cursor
        if cursor is None:
            return


def _shown(job: Job) -> str:
    return f"\n  {job.type!r} {job.state} payload={job.payload[:80]!r} priority={job.priority.name} run_at={job.run_at}"
