"""
The byte layout of job records and histories, format 2. To add an option of a job, extend `OPTIONS`.

    created us, run_at us | format, level and flag, max_retries, nonce, timeout, size of type | options | type, payload

Scripts read the level, max_retries and the times (scripts/prelude/record.lua). The rest is opaque to Redis. enqueue.lua
puts the two times before the body that is sent. A record does not contain the id, queue, version and partition: the key
and the field name them.

The part for options exists only if the flag is set, so a job without options has no extra bytes. It is the size of all
options in two bytes, then for each option its tag, the size of its value in two bytes, and the value. Tags ascend.

A job with an unknown option whose tag is below `MAY_BE_IGNORED` waits for a release that supports that option. Other
unknown options are ignored. They are kept, since no move changes a record. Tags in use, or reserved for later:

    1 flow key
    2 keep: seconds, a double
    3 expires_at: us, 8 bytes
    4 conflict mode: 1 byte
    5 window: seconds, a double; its first moment: us, 8 bytes
    6 idempotency key
    7 retry policy: JSON
    128 metadata: keys and values in turn, NUL between them
    129 earlier nonces: 8 bytes each, newest first, at most three
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from struct import Struct
from typing import Any, Final, NamedTuple, NoReturn

from scheduler.jobs import ErrorRecord, NewJob
from scheduler.limits import MAX_NAME, check_metadata, check_name, is_possible_id
from scheduler.retry import RetryPolicy

FORMAT: Final = 2
LATEST_FORMAT: Final = 31  # later releases go no higher: a larger number means that the record is damaged

HEAD: Final = 30  # bytes up to the nonce, the same in every format; scripts read no others except tags
RECORD: Final = Struct("<qqBBI8sdH")
HAS_OPTIONS: Final = 4  # flag in the byte of the level
MAY_BE_IGNORED: Final = 128

_OPTIONS_SIZE = Struct("<H")
_FIRST_OPTION = RECORD.size + _OPTIONS_SIZE.size
_OPTION = Struct("<BH")
_HISTORY = Struct("<IIB")  # see scripts/prelude/history.lua
_ERROR = Struct("<qI")
_MIN_RUN_SIZE = 8  # bytes
_MAX_COUNTED = 0x7FFFFFFF  # attempts, and crashes

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)

History = tuple[int, int, tuple[ErrorRecord, ...]]
NO_HISTORY: Final[History] = (0, 0, ())


class Damaged(Exception):  # noqa: N818 - describes the record
    """Raised for a part of a record that cannot be read. The message gives the reason and never quotes the data."""


def micros(moment: datetime) -> int:
    """Return the whole microseconds from 1970 to *moment*, exact for every datetime."""
    passed = moment - _EPOCH
    return (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds


@lru_cache(maxsize=64)  # jobs of one batch often have the same times
def moment(us: int) -> datetime:
    """Return the datetime *us* microseconds after 1970."""
    return _EPOCH + timedelta(microseconds=us)


LAST_US: Final = 253_402_300_799_999_968
"""The last microsecond of the year 9999 that a script can represent: numbers in Lua have 53 bits."""


def moment_of(ms: bytes) -> datetime:
    """Return the datetime of a score. A score outside the possible range, written by another program, is clamped."""
    try:
        return moment(int(float(ms)) * 1000)
    except (ValueError, OverflowError):  # a score may be infinite; 9999-12-31T23:59:59.9995 is rounded up
        return _FIRST if ms.startswith(b"-") else _LAST


def id_of(raw: bytes) -> str:
    """Return the id of a job, decoded and checked."""
    text = raw.decode()
    # Printable text has none of the forbidden characters. Called for every leased job, and faster than the expression.
    if not (text.isprintable() and 1 <= len(text) <= MAX_NAME) and not is_possible_id(text):
        raise Damaged("is not a valid id")
    return text


@lru_cache(maxsize=256)  # few types serve many jobs
def kind_of(raw: bytes) -> str:
    """Return the type of a job, decoded and checked."""
    return check_name("type", raw.decode())


@lru_cache(maxsize=256)  # few policies serve many jobs
def _policy_of(raw: bytes) -> RetryPolicy:
    data = json.loads(raw)
    if not isinstance(data, dict):
        raise Damaged("is not a JSON object")
    return RetryPolicy.from_data(data)


@lru_cache(maxsize=256)
def _policy_bytes(policy: RetryPolicy) -> bytes:
    return json.dumps(policy.to_data(), separators=(",", ":")).encode()


def _metadata_of(raw: bytes) -> dict[str, str]:
    texts = raw.decode().split("\0")
    if len(texts) % 2:
        raise Damaged("has a key without a value")
    return check_metadata(dict(zip(texts[::2], texts[1::2], strict=True)))


def _metadata_bytes(metadata: Mapping[str, str]) -> bytes:
    return "\0".join(chain.from_iterable(metadata.items())).encode()  # keys and values cannot contain NUL


class Option(NamedTuple):
    """Storage format of one job option: its tag, and how its value becomes bytes. *decode* raises for invalid bytes."""

    tag: int
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], object]


OPTIONS: Final[Mapping[str, Option]] = {
    "idempotency_key": Option(6, str.encode, lambda raw: check_name("idempotency_key", raw.decode())),
    "retry_policy": Option(7, _policy_bytes, _policy_of),
    "metadata": Option(128, _metadata_bytes, _metadata_of),
}
"""The options by their field name in `NewJob` and `Job`, in ascending order of tags."""

TAGS: Final = bytes(option.tag for option in OPTIONS.values())
"""The tags of the options that this release supports."""

_BY_TAG = {option.tag: (name, option) for name, option in OPTIONS.items()}

options_of: Final = attrgetter(*OPTIONS)
"""Returns the options of a job, in the order of `OPTIONS`."""

NO_OPTIONS: Final = options_of(NewJob(type="plain"))


def options_bytes(options: tuple[object, ...]) -> bytes:
    """Return the part of a record for *options*, given as `options_of` returns them."""
    parts: list[bytes] = []
    for (tag, encode, _), value, none in zip(OPTIONS.values(), options, NO_OPTIONS, strict=True):
        if value != none:
            raw = encode(value)
            parts += (_OPTION.pack(tag, len(raw)), raw)
    return _OPTIONS_SIZE.pack(sum(len(part) for part in parts)) + b"".join(parts)


def start_of_type(record: bytes) -> int:
    """Return the offset of the type, which follows the options. *record* must have a complete head."""
    if not record[17] & HAS_OPTIONS:
        return RECORD.size
    end = _FIRST_OPTION + _OPTIONS_SIZE.unpack_from(record, RECORD.size)[0]
    if end > len(record):
        raise Damaged("is cut short")
    return int(end)


Entry = tuple[str, Callable[[bytes], object], bytes]  # an option's name, decoder and bytes


def is_later(_: bytes) -> NoReturn:
    """Raise `Damaged`: the decoder of an unknown option that must not be ignored."""
    raise Damaged("is of a later release")


def entries_of(record: bytes) -> Iterator[Entry]:
    """Yield the options of a record, except unknown ones that may be ignored."""
    end = start_of_type(record)
    place, last = _FIRST_OPTION, 0
    while place < end:
        tag, size = _OPTION.unpack_from(record, place)
        first, place = place + _OPTION.size, place + _OPTION.size + size
        if tag <= last or place > end:
            raise Damaged("is among options that cannot be separated")
        last = tag
        if tag in _BY_TAG:
            name, option = _BY_TAG[tag]
            yield name, option.decode, record[first:place]
        elif tag < MAY_BE_IGNORED:
            yield f"option_{tag}", is_later, b""


def history_of(value: bytes) -> History:
    """
    Return the attempts, crashes and errors in *value*.

    scripts/prelude/history.lua must accept every history that this function accepts.
    """
    attempts, crashes, counts = _HISTORY.unpack_from(value)
    if attempts > _MAX_COUNTED or crashes > _MAX_COUNTED:
        raise Damaged("has an impossible count")
    errors = []
    of_errors, of_runs = counts & 15, counts >> 4
    end = _HISTORY.size
    for number in range(of_errors + of_runs):
        place = end + 4
        end = place + int.from_bytes(value[end:place], "little")
        if end > len(value) or end - place < (_ERROR.size if number < of_errors else _MIN_RUN_SIZE):
            raise Damaged("is cut short")
        if number < of_errors:  # runs are reserved for a later release and not read yet
            at_us, attempt = _ERROR.unpack_from(value, place)
            kind, message, traceback = value[place + _ERROR.size : end].decode().split("\0")
            errors.append(
                ErrorRecord(attempt=attempt, at=moment(at_us), kind=kind, message=message, traceback=traceback)
            )
    if end != len(value):
        raise Damaged("has extra bytes at its end")
    return attempts, crashes, tuple(errors)
