"""A logger that never raises, and text that is safe in a log line."""

from __future__ import annotations

import logging
import re
import threading

from scheduler.critical import critical

MAX_LOGGED = 1_000  # characters of one text in a log line

# C0 and C1 control characters, line and paragraph separators, characters that change the direction of text, and
# surrogates, which UTF-8 cannot encode.
UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class GuardedLogger(logging.LoggerAdapter[logging.Logger]):
    """Adapter for a logger that drops every exception of the logger's handlers and filters."""

    def __init__(self, logger: logging.Logger) -> None:
        super().__init__(logger, None)

    @critical  # an interrupt of the job's handler raised here would be dropped together with the log handlers' errors
    def log(self, level: int, msg: object, *args: object, **kwargs: object) -> None:
        """Log like `Logger.log`. Never raises, except a real Ctrl-C in the main thread."""
        try:
            if self.logger.isEnabledFor(level):
                # Show the caller's line: skip this method and its decorator. logging skips its own frames.
                kwargs.setdefault("stacklevel", 3)
                self.logger.log(level, msg, *args, **kwargs)  # type: ignore[arg-type]  # passed through as given
        except BaseException as error:
            # A real Ctrl-C while the main thread logs is not an error of the log handler.
            if issubclass(type(error), KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise


def printable(text: str, limit: int = MAX_LOGGED) -> str:
    """Return *text* for one line of a log or terminal: unsafe characters escaped, about *limit* characters at most."""
    if len(text) > limit:
        text = f"{text[:limit]}…"
    return UNSAFE.sub(_escaped, text)


def printable_lines(text: str, limit: int) -> str:
    """Return a traceback like `printable` does, but keep line ends, tabs, and the end of a long text."""
    if len(text) > limit:
        text = f"…{text[-limit:]}"
    return UNSAFE.sub(lambda found: found[0] if found[0] in "\n\t" else _escaped(found), text)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()
