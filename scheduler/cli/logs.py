"""How a process writes its log to stderr: as text for people or JSON for machines, in one form in all processes."""

from __future__ import annotations

import json
import logging
import math
import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from scheduler.logs import UNSAFE, printable, printable_lines

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_RESERVED = frozenset({"time", "level", "logger", "process", "thread", "message", "error"})
_LONGEST = 64 * 1024  # characters of a message or a traceback


class Line(NamedTuple):
    """What every line of a log tells. created: seconds since 1970."""

    created: float
    process: int | None
    level: str
    thread: str | None
    logger: str
    message: str

    @classmethod
    def of(cls, record: logging.LogRecord) -> Line:
        """That of *record*, without its traceback."""
        return cls(
            record.created, record.process, record.levelname, record.threadName, record.name, _message_of(record)
        )

    @property
    def time(self) -> str:
        """ISO 8601, in UTC: an application may set another zone in some of the processes."""
        return datetime.fromtimestamp(self.created, UTC).isoformat(timespec="milliseconds")

    def text(self) -> str:
        """The line for people."""
        head = f"{self.time} {self.process} {self.level:<7} {printable(str(self.thread))} {printable(self.logger)}"
        return f"{head}: {printable_lines(self.message, _LONGEST)}"

    def fields(self) -> dict[str, object]:
        """The line for machines."""
        return {
            "time": self.time,
            "level": self.level,
            "logger": self.logger,
            "process": self.process,
            "thread": self.thread,
            "message": self.message,
        }


class TextFormatter(logging.Formatter):
    """Moment, process, level, thread, logger, message; the traceback follows. Nothing in it steers a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """The text of *record*."""
        parts = [_traceback_of(self, record), record.stack_info]
        return "\n".join([Line.of(record).text(), *(printable_lines(part, _LONGEST) for part in parts if part)])


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, process, thread, message, error, and what `extra=` brought."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of *record*."""
        fields = Line.of(record).fields()
        if error := _traceback_of(self, record):
            fields["error"] = error[-_LONGEST:]
        for name, value in vars(record).items():
            if name not in _STANDARD:
                fields[f"extra.{name}" if name in _RESERVED else name] = value
        return json_line(fields)


def json_line(fields: Mapping[str, object]) -> str:
    """*fields* as one line of valid JSON, whatever an application's `extra` holds."""
    try:
        text = json.dumps(fields, default=_shown, ensure_ascii=False, allow_nan=False)
    except (ValueError, TypeError, RecursionError):  # NaN, a circle, keys that are no text
        text = json.dumps({name: _plain(value) for name, value in fields.items()}, ensure_ascii=False)
    # In JSON such characters stand within texts only.
    return UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def configure(log_format: str, level: str) -> None:
    """Set up the root logger, unless the application has done so."""
    root = logging.getLogger()
    if root.handlers:
        return
    root.setLevel(level)
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    root.addHandler(handler)


def write_now(text: str, log_format: str, logger: str) -> None:
    """Write a line of the log past logging and streams: in a signal handler, whose thread may hold their locks."""
    # Its thread is the main one: only there do signal handlers of Python's run.
    now = Line(time.time(), os.getpid(), "INFO", "MainThread", logger, text)
    line = json_line(now.fields()) if log_format == "json" else now.text()
    try:
        os.write(2, f"{line}\n".encode(errors="backslashreplace"))
    except OSError:
        return


def _message_of(record: logging.LogRecord) -> str:
    try:
        return str(record.getMessage())[:_LONGEST]
    except Exception as error:  # noqa: BLE001 - arguments that do not fit, or whose code raises
        return f"{_shown(record.msg)} (its arguments cannot be put in: {type(error).__name__})"


def _traceback_of(formatter: logging.Formatter, record: logging.LogRecord) -> str | None:
    if not record.exc_info:
        return record.exc_text
    try:
        return formatter.formatException(record.exc_info)
    except Exception as error:  # noqa: BLE001 - an exception whose code raises
        return f"<a traceback that cannot be formatted: {type(error).__name__}>"


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001 - code of the application's
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"


def _plain(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    return value if value is None or isinstance(value, str | int) else _shown(value)
