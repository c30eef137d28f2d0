"""Logging on stderr as text or JSON, in the same format in all processes."""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime

from scheduler.logs import UNSAFE, printable, printable_lines

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_RESERVED = frozenset({"time", "level", "logger", "process", "thread", "message", "error"})
_LONGEST = 64 * 1024  # characters of a message or a traceback


class TextFormatter(logging.Formatter):
    """Formatter of lines with time, process, level, thread, logger and message. Control characters are escaped."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of *record*."""
        head = f"{_time_of(record)} {record.process} {record.levelname:<7} {printable(str(record.threadName))}"
        parts = [f"{head} {printable(record.name)}: {printable_lines(_message_of(record), _LONGEST)}"]
        more = (_traceback_of(self, record), record.stack_info)
        return "\n".join([*parts, *(printable_lines(part, _LONGEST) for part in more if part)])


class JsonFormatter(logging.Formatter):
    """Formatter of JSON lines with time, level, logger, process, thread, message, error and the fields of `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of *record*."""
        fields: dict[str, object] = {
            "time": _time_of(record),
            "level": record.levelname,
            "logger": record.name,
            "process": record.process,
            "thread": record.threadName,
            "message": _message_of(record),
        }
        if error := _traceback_of(self, record):
            fields["error"] = error[-_LONGEST:]
        for name, value in vars(record).items():
            if name not in _STANDARD:
                fields[f"extra.{name}" if name in _RESERVED else name] = value
        return _json_line(fields)


def configure(log_format: str, level: str) -> None:
    """Set up the root logger, unless the application has done so."""
    root = logging.getLogger()
    if root.handlers:
        return
    root.setLevel(level)
    handler = logging.StreamHandler()
    handler.setFormatter(_formatter(log_format))
    root.addHandler(handler)


def write_now(text: str, log_format: str, logger: str) -> None:
    """Write a log line from a signal handler. Log handlers are not used: this thread may already hold their locks."""
    with suppress(OSError, MemoryError):
        line = _formatter(log_format).format(logging.LogRecord(logger, logging.INFO, "", 0, text, None, None))
        os.write(2, f"{line}\n".encode(errors="backslashreplace"))


def _formatter(log_format: str) -> logging.Formatter:
    return JsonFormatter() if log_format == "json" else TextFormatter()


def _json_line(fields: Mapping[str, object]) -> str:
    """Return *fields* as one line of valid JSON, whatever an application's `extra` contains."""
    try:
        text = json.dumps(fields, default=_shown, ensure_ascii=False, allow_nan=False)
    except (ValueError, TypeError, RecursionError):  # NaN, a circular value, keys that are not strings
        text = json.dumps({name: _plain(value) for name, value in fields.items()}, ensure_ascii=False)
    # Such characters occur only within strings of the JSON.
    return UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _time_of(record: logging.LogRecord) -> str:
    # In UTC: an application may set another zone in some of the processes.
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


def _message_of(record: logging.LogRecord) -> str:
    try:
        return str(record.getMessage())[:_LONGEST]
    except Exception as error:  # noqa: BLE001 - arguments that do not fit or raise
        return f"{_shown(record.msg)} (its arguments do not fit: {type(error).__name__})"


def _traceback_of(formatter: logging.Formatter, record: logging.LogRecord) -> str | None:
    if not record.exc_info:
        return record.exc_text
    try:
        return formatter.formatException(record.exc_info)
    except Exception as error:  # noqa: BLE001 - code of the exception may raise
        return f"<a traceback that cannot be formatted: {type(error).__name__}>"


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001 - the repr is code of the application
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"


def _plain(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    return value if value is None or isinstance(value, str | int) else _shown(value)
