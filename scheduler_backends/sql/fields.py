"""Reads one field of a row, or raises and says why not. No reason quotes what was found."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Final, NoReturn, TypeVar

from scheduler.jobs import ErrorRecord, Priority
from scheduler.limits import MAX_DELAY, check_bytes, check_count, check_number
from scheduler.retry import RetryPolicy
from scheduler_backends.sql.checks import MOST
from scheduler_backends.sql.rows import from_micros

PRIORITIES: Final = tuple(Priority)
SHORTEST_TIMEOUT: Final = 0.001  # seconds

_T = TypeVar("_T")


class RefusedError(ValueError):
    """What a reader cannot read, and why."""


def refuse(reason: str) -> NoReturn:
    """Raise for *reason*, which quotes nothing of what was found."""
    raise RefusedError(reason)


def optional(reader: Callable[[object], _T]) -> Callable[[object], _T | None]:
    """*reader*, or None for NULL."""
    return lambda value: None if value is None else reader(value)


def text_of(value: object) -> str:
    """Text."""
    if type(value) is not str:
        refuse(f"must be text, not {type(value).__name__}")
    return value


def result_of(value: object) -> bytes:
    """Bytes."""
    return check_bytes("result", value)


def counter_of(value: object) -> int:
    """A number of attempts or crashes."""
    return check_count("attempts", value, at_most=MOST)


def attempts_of_leased(value: object) -> int:
    """A number of attempts that holds the present one."""
    return check_count("attempts", value, at_least=1, at_most=MOST)


def retries_of(value: object) -> int:
    """A number of retries."""
    return check_count("max_retries", value)


def timeout_of(value: object) -> float:
    """Seconds."""
    return check_number("timeout", value, at_least=SHORTEST_TIMEOUT, at_most=MAX_DELAY)


def priority_of(value: object) -> Priority:
    """One of the priorities."""
    return PRIORITIES[check_count("priority", value, at_most=max(Priority))]


def moment_of(value: object) -> datetime:
    """A moment that a datetime can say."""
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
    """A retry policy that this release knows."""
    return RetryPolicy.from_data(_document(text, dict))


def metadata_of(text: object) -> dict[str, str]:
    """A document from text to text."""
    found: dict[str, str] = _document(text, dict)
    for value in found.values():
        if type(value) is not str:
            refuse("must map text to text")
    return found


def errors_of(text: object) -> tuple[ErrorRecord, ...]:
    """The errors of a job."""
    return tuple(map(_error, _document(text, list)))


def _error(entry: object) -> ErrorRecord:
    if type(entry) is not dict:
        refuse("must hold objects")
    try:
        attempt, at, *texts = (entry[name] for name in ("attempt", "at", "kind", "message", "traceback"))
    except KeyError:
        refuse("must hold objects with attempt, at, kind, message and traceback")
    return ErrorRecord(
        attempt=check_count("attempt", attempt, at_most=MOST),
        at=moment_of(at),
        kind=text_of(texts[0]),
        message=text_of(texts[1]),
        traceback=text_of(texts[2]),
    )
