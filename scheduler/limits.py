"""
Checks of arguments and values, shared by the whole library and by all stores.

Each function returns the value to keep, or raises an error that names the field: `ConfigError`, unless *error* is
another class.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import TypeVar

from scheduler.clock import Clock
from scheduler.errors import ConfigError, InvalidJob
from scheduler.states import JobState

MAX_NAME = 200  # characters
MAX_METADATA = 8 * 1024  # bytes of UTF-8, keys and values together
MAX_DELAY = 100 * 365.25 * 86_400.0  # seconds: one hundred years
MAX_COUNT = 1_000_000
MAX_RESULT = 256 * 1024  # bytes, encoded
MAX_BATCH = 10_000  # jobs in one call of the contract
MAX_ERROR_KIND, MAX_ERROR_MESSAGE, MAX_ERROR_TRACEBACK = 200, 2_000, 8_000  # characters
MAX_ERRORS = 10  # kept per job, the newest ones

T = TypeVar("T")
Refusal = type[ConfigError] | type[InvalidJob]

# C0 and C1 controls, and surrogates, which UTF-8 cannot encode.
FORBIDDEN_IN_NAMES = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
TOKEN = re.compile("[0-9a-f]{32}")
_FORBIDDEN_IN_TEXT = re.compile("[\x00\ud800-\udfff]")


def _plain(text: str) -> str:
    # A member of a str enum formats as "Queue.MAIL" but is stored as "mail", so only the plain text is kept. The same
    # is done with numbers and bytes below. Methods of a subclass are never called, since they may return anything.
    return str.__str__(text)


def check_kind(field: str, value: T, *kinds: type) -> T:
    """Return *value*, which must be an object of one of the classes or protocols *kinds*."""
    wanted = " or ".join(f"a {kind.__name__}" for kind in kinds)
    if isinstance(value, type):  # a class also has the methods of a protocol, but calling them fails
        raise ConfigError(field, f"must be {wanted}, not the class {value.__name__} itself; pass an object of it")
    if not isinstance(value, kinds):
        raise ConfigError(field, f"must be {wanted}, not {type(value).__name__}")
    return value


def check_clock(clock: Clock | None) -> Clock | None:
    """Return the clock of a store; None = the store's own."""
    return None if clock is None else check_kind("clock", clock, Clock)


def now_of(clock: Clock | None) -> datetime:
    """Return the current time in UTC by *clock*, which may be user code; None = this machine's clock."""
    if clock is None:
        return datetime.now(UTC)
    now = clock.now()
    return now if type(now) is datetime and now.tzinfo is UTC else check_moment("clock", now, ConfigError)


def check_name(field: str, value: object, error: Refusal = InvalidJob) -> str:
    """Return a name as plain text: 1 to 200 characters, without control characters or surrogates."""
    if not isinstance(value, str):
        raise error(field, f"must be text, not {type(value).__name__}")
    text = _plain(value)
    if not 1 <= len(text) <= MAX_NAME:
        raise error(field, f"must have 1 to {MAX_NAME} characters, not {len(text)}")
    if FORBIDDEN_IN_NAMES.search(text):
        raise error(field, "must not contain control characters or surrogates")
    return text


def check_bytes(field: str, value: object, error: Refusal = ConfigError) -> bytes:
    """Return plain bytes. A bytearray or memoryview is refused, since it may change later."""
    if not isinstance(value, bytes):
        raise error(field, f"must be bytes, not {type(value).__name__}")
    return value if type(value) is bytes else bytes.__getitem__(value, slice(None))


def check_number(
    field: str,
    value: object,
    error: Refusal = ConfigError,
    *,
    at_least: float = 0.0,
    above: float = -math.inf,
    at_most: float = MAX_DELAY,
) -> float:
    """Return a finite number within the bounds as a float. A bool is refused."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise error(field, f"must be a number, not {type(value).__name__}")
    number = int.__int__(value) if isinstance(value, int) else float.__float__(value)
    # Compared before it is converted: an int beyond the float range would raise OverflowError. NaN fails as well, since
    # it compares as False.
    if not at_least <= number <= at_most or number <= above:
        bound = f"above {above:g}" if above >= at_least else f"at least {at_least:g}"
        raise error(field, f"must be {bound} and at most {at_most:g}")
    return float(number)


def check_count(
    field: str, value: object, error: Refusal = ConfigError, *, at_least: int = 0, at_most: int = MAX_COUNT
) -> int:
    """Return a whole number within the bounds. A bool or a float is refused."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise error(field, f"must be a whole number, not {type(value).__name__}")
    number = int.__int__(value)
    if not at_least <= number <= at_most:
        raise error(field, f"must be between {at_least} and {at_most}")
    return number


def check_moment(field: str, value: object, error: Refusal = InvalidJob) -> datetime:
    """Return an aware datetime in UTC. A naive one is refused, since its zone would be a guess."""
    if not isinstance(value, datetime):
        raise error(field, f"must be a datetime, not {type(value).__name__}")
    try:
        offset = datetime.utcoffset(value)
    except Exception as failure:
        raise error(field, f"has a time zone that fails: {type(failure).__name__}") from failure
    if offset is None:
        raise error(field, "must be aware (have a time zone), such as datetime.now(timezone.utc)")
    try:
        # Built from the fields: a subclass may have its own arithmetic, or a constructor with other arguments.
        return (
            datetime(  # noqa: DTZ001 - the offset is subtracted below
                value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond
            )
            - offset
        ).replace(tzinfo=UTC)
    except OverflowError:
        raise error(field, "must lie within the years 1 to 9999 in UTC") from None


def check_metadata(value: object, error: Refusal = InvalidJob) -> dict[str, str]:
    """Return a copy of a mapping from text to text: at most 8 KiB, without NUL or surrogates."""
    if not isinstance(value, Mapping):
        raise error("metadata", f"must be a mapping, not {type(value).__name__}")
    size = 0
    copy = {}
    try:
        pairs = [(key, text) for key, text in value.items()]
    except Exception as failure:
        raise error("metadata", f"cannot be read: {type(failure).__name__}") from failure
    for pair in pairs:
        for part in pair:
            if not isinstance(part, str):
                raise error("metadata", f"must map text to text, not hold {type(part).__name__}")
            if _FORBIDDEN_IN_TEXT.search(part):
                raise error("metadata", "must not contain NUL or surrogates")
        key, text = map(_plain, pair)
        size += len(key.encode()) + len(text.encode())
        copy[key] = text
    if size > MAX_METADATA:
        raise error("metadata", f"must not exceed {MAX_METADATA} bytes, has {size}")
    return copy


def clean_text(value: str, limit: int, *, keep: str = "head") -> str:
    """Return *value* with NUL and surrogates replaced, cut to *limit* characters at its *keep* ("head" or "tail")."""
    value = _plain(value)
    if len(value) > limit:
        value = value[:limit] if keep == "head" else value[-limit:]
    return _FORBIDDEN_IN_TEXT.sub("\ufffd", value)


def _tuple_of(field: str, items: Iterable[T]) -> tuple[T, ...]:
    if isinstance(items, str):
        raise ConfigError(field, "must be a sequence, not one string")
    try:
        return tuple(items)
    except TypeError:
        raise ConfigError(field, f"must be a sequence, not {type(items).__name__}") from None


def check_all(field: str, items: Iterable[T], kind: type[T]) -> tuple[T, ...]:
    """Return *items*, which must be objects of the class *kind*, as a tuple, which the caller cannot change."""
    checked = _tuple_of(field, items)
    # Subclasses are refused: one may bypass the checks of its base class, and no store checks the values again.
    others = set(map(type, checked)) - {kind}
    if others:
        found = min(other.__name__ for other in others)
        raise ConfigError(field, f"must contain only plain {kind.__name__} objects, not {found}")
    return checked


def check_queue(queue: object) -> str:
    """Return the name of one queue."""
    return check_name("queue", queue, ConfigError)


def check_queues(queues: Sequence[str]) -> tuple[str, ...]:
    """Return the queues of a call without duplicates, at least one. A single string is refused as a mistake."""
    if type(queues) is tuple and set(map(type, queues)) == {str}:
        return _checked_queues(queues)  # cached: a worker passes the same queues, perhaps a thousand, in every call
    return _check_queues(queues)


def _check_queues(queues: Sequence[str]) -> tuple[str, ...]:
    if isinstance(queues, str):
        raise ConfigError("queues", "must be a sequence of names, not one string")
    try:
        given = tuple(queues)
    except TypeError:
        raise ConfigError("queues", f"must be a sequence of names, not {type(queues).__name__}") from None
    names = tuple(dict.fromkeys(check_name("queues", name, ConfigError) for name in given))
    if not names:
        raise ConfigError("queues", "must name at least one queue")
    return names


_checked_queues = lru_cache(maxsize=64)(_check_queues)


def check_ids(ids: Sequence[str]) -> Sequence[str]:
    """Return the ids of a call as plain text. Ids that no job can have are allowed (see `is_possible_id`)."""
    given = _tuple_of("ids", ids)
    for id in given:
        if not isinstance(id, str):
            raise ConfigError("ids", f"must contain only text, not {type(id).__name__}")
    return [str.__str__(id) for id in given]  # plain text, also of a text-valued enum


def is_possible_id(id: str) -> bool:
    """Return True if a job can have this id. Other ids never reach a store, which might not accept their characters."""
    return 1 <= len(id) <= MAX_NAME and FORBIDDEN_IN_NAMES.search(id) is None


def check_state(state: object) -> JobState:
    """Return *state*, a `JobState` or its value as text, as a `JobState`."""
    try:
        return JobState(state)  # type: ignore[arg-type]  # a value of the wrong type is a wrong state as well
    except ValueError:
        raise ConfigError("state", f"must be one of {', '.join(JobState)}") from None


def check_limit(limit: object) -> int:
    """Return the number of jobs that one call may move: 1 to 10,000."""
    return check_count("limit", limit, at_least=1, at_most=MAX_BATCH)


def check_duration(duration: object) -> float:
    """Return the duration of a lease in seconds: at least a millisecond, at most 366 days."""
    return check_number("duration", duration, at_least=0.001, at_most=366 * 86_400.0)


def check_token(token: object) -> str:
    """Return a lease token: 32 hexadecimal digits in lower case."""
    if not isinstance(token, str) or not TOKEN.fullmatch(token):
        raise ConfigError("token", "must be 32 hexadecimal digits in lower case, as returned by new_token()")
    return token
