"""
Encoders and decoders of single fields. Documents (errors, metadata, retry policy) are JSON text.

A decoder raises if it cannot read a value. Its error gives the reason and does not quote the value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Final, NoReturn, TypeVar

from scheduler.jobs import ErrorDetail, ErrorRecord, Priority
from scheduler.limits import MAX_DELAY, check_bytes, check_count, check_name, check_number
from scheduler.retry import RetryPolicy
from scheduler_backends.sql.checks import MAX_COUNTER
from scheduler_backends.sql.moments import from_micros

PRIORITIES: Final = tuple(Priority)
SHORTEST_TIMEOUT: Final = 0.001  # seconds

_T = TypeVar("_T")

document: Final = json.JSONEncoder(separators=(",", ":")).encode
"""Return compact JSON text. The encoder is shared, because `json.dumps` with options makes one for each call."""


def policy_text(policy: RetryPolicy) -> str:
    """Return a retry policy as a document."""
    return document(policy.to_data())


def metadata_text(metadata: Mapping[str, str]) -> str:
    """Return metadata as a document."""
    return document(dict(metadata))


def error_document(detail: ErrorDetail | None) -> str | None:
    """Return the document that is appended to a job's errors. The statement adds the attempt and the moment to it."""
    if detail is None:
        return None
    return document({"kind": detail.kind, "message": detail.message, "traceback": detail.traceback})


class RefusedError(ValueError):
    """A value cannot be read. The message gives the reason."""


def refuse(reason: str) -> NoReturn:
    """Raise `RefusedError`. *reason* must not quote the value."""
    raise RefusedError(reason)


def text_of(value: object) -> str:
    """Check that *value* is text."""
    if type(value) is not str:
        refuse(f"must be text, not {type(value).__name__}")
    return value


def name_of(value: object) -> str:
    """Check that *value* is a valid name."""
    return check_name("name", value)


def bytes_of(value: object) -> bytes:
    """Check that *value* is bytes."""
    return value if type(value) is bytes else check_bytes("bytes", value)


def counter_of(value: object) -> int:
    """Check a number of attempts or crashes."""
    return check_count("attempts", value, at_most=MAX_COUNTER)


def attempts_of_leased(value: object) -> int:
    """Check the attempts of a leased job: at least 1, since the current attempt counts."""
    return check_count("attempts", value, at_least=1, at_most=MAX_COUNTER)


def retries_of(value: object) -> int:
    """Check a number of retries."""
    return check_count("max_retries", value)


def timeout_of(value: object) -> float:
    """Check a job's timeout in seconds."""
    return check_number("timeout", value, at_least=SHORTEST_TIMEOUT, at_most=MAX_DELAY)


def priority_of(value: object) -> Priority:
    """Return the priority with the number *value*."""
    return PRIORITIES[check_count("priority", value, at_most=max(Priority))]


def moment_of(value: object) -> datetime:
    """Return the moment that is *value* microseconds after 1970."""
    if type(value) is not int:
        refuse(f"must be whole microseconds, not {type(value).__name__}")
    try:
        return from_micros(value)
    except OverflowError:
        refuse("must lie within the years 1 to 9999")


def _document(text: object, kind: type[_T]) -> _T:
    try:
        value = json.loads(text_of(text))
    except (ValueError, RecursionError):
        refuse("is no JSON that can be read")
    if type(value) is not kind:
        refuse(f"must be a JSON {'object' if kind is dict else 'array'}")
    return value


def policy_of(text: object) -> RetryPolicy:
    """Decode a retry policy. Refuses a kind that this release does not have."""
    return RetryPolicy.from_data(_document(text, dict))


def metadata_of(text: object) -> dict[str, str]:
    """Decode metadata: a JSON object whose values are text."""
    found: dict[str, str] = _document(text, dict)
    for value in found.values():
        if type(value) is not str:
            refuse("must map text to text")
    return found


def errors_of(text: object) -> tuple[ErrorRecord, ...]:
    """Decode the errors of a job."""
    return tuple(map(_error, _document(text, list)))


def _error(entry: object) -> ErrorRecord:
    if type(entry) is not dict:
        refuse("must contain objects")
    try:
        attempt, at, *texts = (entry[name] for name in ("attempt", "at", "kind", "message", "traceback"))
    except KeyError:
        refuse("must contain objects with attempt, at, kind, message and traceback")
    return ErrorRecord(
        attempt=check_count("attempt", attempt, at_most=MAX_COUNTER),
        at=moment_of(at),
        kind=text_of(texts[0]),
        message=text_of(texts[1]),
        traceback=text_of(texts[2]),
    )
