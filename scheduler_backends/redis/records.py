"""The parts of a record and of a history, each read on its own. What cannot be read raises, some of it `Damaged`."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from struct import Struct

from scheduler.errors import InvalidJob
from scheduler.jobs import ErrorRecord
from scheduler.limits import check_metadata, check_name, is_possible_id
from scheduler.retry import RetryPolicy

FORMAT = 1
LATEST_FORMAT = 31  # by agreement with later releases: a larger number in that place is damage

HEAD = 30  # bytes that have their place in every format; scripts read no others
RECORD = Struct("<qqBBI8sdHI")  # see codec.py
_HISTORY = Struct("<IIB")  # see prelude/history.lua
_ERROR = Struct("<IqI")
_MOST = 0x7FFFFFFF  # attempts and crashes

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)

Extra = tuple[RetryPolicy | None, str | None, dict[str, str]]
Unread = tuple[bytes, bytes, bytes | None]  # id, record, history
History = tuple[int, int, tuple[ErrorRecord, ...]]

NO_EXTRA: tuple[None, None] = (None, None)
NO_HISTORY: History = (0, 0, ())


class Damaged(Exception):  # noqa: N818 - names what the record is
    """A part that cannot be read. The message says why, and quotes nothing of it."""


def micros(moment: datetime) -> int:
    """Whole microseconds since 1970, exact for every datetime."""
    passed = moment - _EPOCH
    return (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds


@lru_cache(maxsize=64)  # jobs of one batch share their moments
def moment(us: int) -> datetime:
    """The datetime of so many microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=us)


LAST_US = 253_402_300_799_999_968
"""The last microsecond of the year 9999 that scripts can count: they have 53 bits."""


def moment_of(ms: bytes) -> datetime:
    """The datetime of a score, which anybody may have written: the nearest that there is."""
    try:
        return moment(int(float(ms)) * 1000)
    except (ValueError, OverflowError):  # a score may be infinite; 9999-12-31T23:59:59.9995 is rounded up
        return _FIRST if ms.startswith(b"-") else _LAST


def id_of(raw: bytes) -> str:
    """The id of a job."""
    text = raw.decode()
    if not is_possible_id(text):
        raise Damaged("is no possible id")
    return text


@lru_cache(maxsize=256)  # few types serve many jobs
def kind_of(raw: bytes) -> str:
    """The type of a job."""
    return check_name("type", raw.decode())


@lru_cache(maxsize=256)  # few policies serve many jobs
def _policy(text: str) -> RetryPolicy:
    return RetryPolicy.from_data(json.loads(text))


def policy_of(data: object) -> RetryPolicy | None:
    """A retry policy, as `RetryPolicy.to_data` wrote it."""
    if data is None:
        return None
    if not isinstance(data, dict):
        raise Damaged("is no object")
    return _policy(json.dumps(data))


def key_of(data: object) -> str | None:
    """An idempotency key."""
    return None if data is None else check_name("idempotency_key", data, InvalidJob)


def extra_of(text: bytes) -> Extra:
    """Retry policy, key and metadata, of a record that has any of them."""
    data = json.loads(text)
    return policy_of(data["retry"]), key_of(data["key"]), check_metadata(data["metadata"])


def history_of(value: bytes) -> History:
    """Attempts, crashes and errors. prelude/history.lua refuses no history that is taken here."""
    attempts, crashes, count = _HISTORY.unpack_from(value)
    if attempts > _MOST or crashes > _MOST:
        raise Damaged("counts more than there can be")
    errors = []
    place = _HISTORY.size
    for _ in range(count):
        size, at_us, attempt = _ERROR.unpack_from(value, place)
        end = place + 4 + size
        if size < _ERROR.size - 4 or end > len(value):
            raise Damaged("is cut short")
        kind, message, traceback = value[place + _ERROR.size : end].decode().split("\0")
        errors.append(ErrorRecord(attempt=attempt, at=moment(at_us), kind=kind, message=message, traceback=traceback))
        place = end
    if place != len(value):
        raise Damaged("is longer than its errors")
    return attempts, crashes, tuple(errors)
