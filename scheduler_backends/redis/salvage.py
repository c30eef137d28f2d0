"""What can still be read of a job whose record or history cannot be read as a whole, and why the rest cannot."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from struct import error as struct_error
from typing import TypeVar, cast

from scheduler.errors import ConfigError, InvalidJob
from scheduler.jobs import UNREADABLE, ErrorDetail, ErrorRecord, Job, Priority
from scheduler.limits import check_count, check_metadata, check_number
from scheduler.states import JobState
from scheduler_backends.redis.records import (
    FORMAT,
    HEAD,
    LATEST_FORMAT,
    NO_HISTORY,
    RECORD,
    Damaged,
    History,
    history_of,
    id_of,
    key_of,
    kind_of,
    moment,
    policy_of,
)

_FIELDS = (
    "type", "payload", "priority", "run_at", "created_at", "max_retries", "timeout", "retry_policy", "idempotency_key",
    "metadata",
)  # fmt: skip  # those in a record
_IN_HISTORY = ("attempts", "crashes", "errors")

_T = TypeVar("_T")


def later_format(record: bytes) -> int | None:
    """
    The format of a record that a later release has written; None for any other record, damaged ones among them.

    Whatever its format, a record begins with two moments, and then comes the number of the format.
    """
    if len(record) >= HEAD and FORMAT < record[16] <= LATEST_FORMAT:
        try:
            moment(int.from_bytes(record[:8], "little", signed=True))
            moment(int.from_bytes(record[8:16], "little", signed=True))
        except OverflowError:
            return None
        return record[16]
    return None


def why_unreadable(raw_id: bytes, record: bytes, past: bytes | None) -> str:
    """Return which fields cannot be read and why, without quoting what they hold."""
    return _Reader(raw_id, record, past).why


def salvage(job: Job, raw_id: bytes, record: bytes, past: bytes | None) -> Job:
    """Return *job* with what can be read. Its last error says what cannot."""
    reader = _Reader(raw_id, record, past)
    attempts, crashes, errors = reader.history
    if job.state is JobState.LEASED or job.state is JobState.SUCCEEDED:
        attempts += 1
    # Made when it is read: record and history stay as they are, for a release that can read them.
    detail = ErrorDetail(kind=UNREADABLE, message=reader.why)
    errors = (*errors, ErrorRecord.of(detail, attempt=attempts, at=job.finished_at or job.due_at or job.run_at))
    return replace(
        job,
        attempts=attempts,
        crashes=crashes,
        errors=errors,
        unreadable=tuple(reader.reasons),
        **reader.fields,  # type: ignore[arg-type]  # each as its decoder returns it
    )


class _Reader:
    """Reads each field by itself."""

    def __init__(self, raw_id: bytes, record: bytes, past: bytes | None) -> None:
        self.fields: dict[str, object] = {"id": raw_id.decode(errors="backslashreplace")}
        self.reasons: dict[str, str] = {}
        self.history: History = NO_HISTORY
        self._keep("id", lambda: id_of(raw_id))
        self._read_record(record)
        if past:
            self.history = self._tried(_IN_HISTORY, lambda: history_of(past)) or NO_HISTORY

    @property
    def why(self) -> str:
        """The reasons, equal ones once."""
        fields: dict[str, list[str]] = {}
        for name, reason in self.reasons.items():
            fields.setdefault(reason, []).append(name)
        return "; ".join(f"{', '.join(names)} {reason}" for reason, names in fields.items())

    def _read_record(self, record: bytes) -> None:
        later = later_format(record)
        if later is not None or len(record) < RECORD.size or record[16] != FORMAT:
            reason = "cannot be read: the record is no record"
            if later is not None:
                reason = f"cannot be read: the record has format {later}, of a later release; this one reads {FORMAT}"
            self.reasons.update(dict.fromkeys(_FIELDS, reason))
            return
        created_us, run_us, _, level, retries, _, timeout, of_type, of_extra = RECORD.unpack_from(record)
        self._keep("created_at", lambda: moment(created_us))
        self._keep("run_at", lambda: moment(run_us))
        self._keep("priority", lambda: Priority(level))
        self._keep("max_retries", lambda: check_count("max_retries", retries))
        self._keep("timeout", lambda: check_number("timeout", timeout, above=0.0))
        kind_end = RECORD.size + of_type
        extra_end = kind_end + of_extra
        self._keep("type", lambda: kind_of(_within(record, RECORD.size, kind_end)))
        self._keep("payload", lambda: _within(record, extra_end, len(record)))
        if of_extra:
            self._read_extra(record, kind_end, extra_end)

    def _read_extra(self, record: bytes, start: int, end: int) -> None:
        names = ("retry_policy", "idempotency_key", "metadata")
        data = self._tried(names, lambda: cast("dict[str, object]", json.loads(_within(record, start, end))))
        if data is not None:
            self._keep("retry_policy", lambda: policy_of(data["retry"]))
            self._keep("idempotency_key", lambda: key_of(data["key"]))
            self._keep("metadata", lambda: check_metadata(data["metadata"]))

    def _keep(self, name: str, read: Callable[[], object]) -> None:
        value = self._tried((name,), read)
        if name not in self.reasons:
            self.fields[name] = value

    def _tried(self, names: tuple[str, ...], read: Callable[[], _T]) -> _T | None:
        try:
            return read()
        except Exception as error:  # noqa: BLE001 - whatever a decoder raises is a reason
            self.reasons.update(dict.fromkeys(names, _reason(error, names)))
            return None


def _within(record: bytes, start: int, end: int) -> bytes:
    if end > len(record) or start > len(record):
        raise Damaged("is cut short")
    return record[start:end]


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
    (KeyError, "is missing"),
    (struct_error, "is cut short"),
)
