"""What can still be read of a job whose record or history cannot be read as a whole, and why the rest cannot."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from struct import error as struct_error
from typing import Any, Final, NamedTuple, TypeVar

from scheduler.errors import ConfigError, InvalidJob
from scheduler.jobs import UNREADABLE, ErrorDetail, ErrorRecord, Job, Priority
from scheduler.limits import check_count, check_number
from scheduler.states import JobState
from scheduler_backends.redis.keys import Partition
from scheduler_backends.redis.records import (
    FORMAT,
    HAS_OPTIONS,
    HEAD,
    LATEST_FORMAT,
    NO_HISTORY,
    OPTIONS,
    RECORD,
    Damaged,
    Entry,
    entries_of,
    history_of,
    id_of,
    is_later,
    kind_of,
    moment,
    start_of_type,
)

OF_STATE: Final = ("due_at", "finished_at", "lease_owner", "lease_expires_at", "result")
"""The fields of a job that follow from its state."""

_IN_HISTORY = ("attempts", "crashes", "errors")
_T = TypeVar("_T")


class _Record(NamedTuple):
    """The head of a record, and all of it."""

    created_us: int
    run_us: int
    format: int
    level: int
    max_retries: int
    nonce: bytes
    timeout: float
    of_type: int
    whole: bytes

    def within(self, start: int, end: int) -> bytes:
        """Some of its bytes."""
        if end > len(self.whole) or start > end:
            raise Damaged("is cut short")
        return self.whole[start:end]


def _kind(record: _Record) -> str:
    start = start_of_type(record.whole)
    return kind_of(record.within(start, start + record.of_type))


_FIELDS: Final[Mapping[str, tuple[Callable[[_Record], object], object]]] = {
    "type": (_kind, ""),
    "payload": (lambda record: record.within(start_of_type(record.whole) + record.of_type, len(record.whole)), b""),
    "priority": (lambda record: Priority(record.level & ~HAS_OPTIONS), Priority.NORMAL),
    "run_at": (lambda record: moment(record.run_us), moment(0)),
    "created_at": (lambda record: moment(record.created_us), moment(0)),
    "max_retries": (lambda record: check_count("max_retries", record.max_retries), 0),
    "timeout": (lambda record: check_number("timeout", record.timeout, above=0.0), 0.0),
}
"""How each field outside the options is read on its own, and what it is where that fails."""


def later_part(record: bytes) -> str | None:
    """
    Return what a later release has written into *record* and this one must not pass over: a format, or an option.

    None for any other record, damaged ones among them. Whatever its format, a record begins with two moments, and then
    comes the number of the format.
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


def salvage(  # noqa: PLR0917 - as `codec` reads a job
    partition: Partition,
    raw_id: bytes,
    record: bytes,
    past: bytes | None,
    state: JobState,
    of_state: tuple[object, ...],
) -> Job:
    """Return the job with what can be read. If that is not all, its last error says what cannot."""
    reasons: dict[str, str] = {}

    def read(names: tuple[str, ...], neutral: _T, reader: Callable[..., _T], *args: object) -> _T:
        try:
            return reader(*args)
        except Exception as error:  # noqa: BLE001 - whatever a decoder raises is a reason
            reasons.update(dict.fromkeys(names, _reason(error, names)))
            return neutral

    values: dict[str, Any] = {name: neutral for name, (_, neutral) in _FIELDS.items()}
    values.update(zip(OF_STATE, of_state, strict=True))
    values["id"] = read(("id",), raw_id.decode(errors="backslashreplace"), id_of, raw_id)
    later = later_part(record)
    if len(record) < RECORD.size or record[16] != FORMAT:
        why = (
            f"the record has {later}, of a later release; this one reads {FORMAT}"
            if later
            else "the record is no record"
        )
        reasons.update(dict.fromkeys((*_FIELDS, *OPTIONS), f"cannot be read: {why}"))
    else:
        parts = _Record._make((*RECORD.unpack_from(record), record))
        for name, (reader, neutral) in _FIELDS.items():
            values[name] = read((name,), neutral, reader, parts)
        none: list[Entry] = []
        for name, decode, raw in read(tuple(OPTIONS), none, lambda: list(entries_of(record))):
            value = read((name,), None, decode, raw)
            if value is not None:  # else the field has its default
                values[name] = value
    attempts, crashes, errors = read(_IN_HISTORY, NO_HISTORY, history_of, past) if past else NO_HISTORY
    attempts += state is JobState.LEASED or state is JobState.SUCCEEDED
    if reasons:
        # Made when it is read: record and history stay as they are, for a release that can read them.
        names: dict[str, list[str]] = {}
        for name, reason in reasons.items():
            names.setdefault(reason, []).append(name)
        why = "; ".join(f"{', '.join(fields)} {reason}" for reason, fields in names.items())
        at = values["finished_at"] or values["due_at"] or values["run_at"]
        detail = ErrorDetail(kind=UNREADABLE, message=why)
        errors = (*errors, ErrorRecord.of(detail, attempt=attempts, at=at))
    return Job(
        queue=partition.queue,
        queue_version=partition.version,
        partition=partition.number,
        state=state,
        attempts=attempts,
        crashes=crashes,
        errors=errors,
        unreadable=tuple(reasons),
        **values,
    )


def _reason(error: Exception, names: tuple[str, ...]) -> str:
    """A text of our own for *error*: that of a decoder may quote what it has read."""
    if isinstance(error, ConfigError | InvalidJob):
        return error.message if error.field in names else f"({error.field}) {error.message}"
    if isinstance(error, Damaged):
        return str(error)
    return next((words for kind, words in _REASONS if isinstance(error, kind)), f"({type(error).__name__}) is damaged")


_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (UnicodeDecodeError, "is not UTF-8"),
    (json.JSONDecodeError, "is not JSON"),
    (RecursionError, "is nested too deeply"),
    (OverflowError, "lies outside the years 1 to 9999"),
    (struct_error, "is cut short"),
)
