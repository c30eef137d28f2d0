"""How a worker's process writes its log: to stderr, as text for people or JSON for machines."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from importlib.util import find_spec

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_TEXT = "%(asctime)s %(process)d %(levelname)-7s %(threadName)s %(name)s: %(message)s"


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, process, thread, message, error, and what `extra=` brought."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of *record*."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "process": record.process,
            "thread": record.threadName,
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=repr, ensure_ascii=False)


def configure(log_format: str, level: str) -> None:
    """Set up the root logger, unless the application has done so."""
    root = logging.getLogger()
    if root.handlers:
        return
    root.setLevel(level)
    root.addHandler(_handler(log_format))


def _handler(log_format: str) -> logging.Handler:
    if log_format == "text" and sys.stderr.isatty() and find_spec("rich"):
        from rich.console import Console  # noqa: PLC0415 - an extra, and only for a person who watches
        from rich.logging import RichHandler  # noqa: PLC0415

        return RichHandler(console=Console(stderr=True), show_path=False)
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if log_format == "json" else logging.Formatter(_TEXT))
    return handler
