"""Loggers whose handlers may fail without harm, and text that is safe in a line of a log."""

from __future__ import annotations

import logging
import re
import threading

from scheduler.critical import critical

MAX_LOGGED = 1_000  # characters of one text in a line of a log

# C0 and C1 controls, what ends a line or turns its direction around, and surrogates, which no UTF-8 can carry.
UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class GuardedLogger(logging.LoggerAdapter[logging.Logger]):
    """Passes on to a logger, and drops whatever its handlers and filters raise."""

    def __init__(self, logger: logging.Logger) -> None:
        super().__init__(logger, None)

    @critical  # else an interrupt of the handler that led here would be dropped with the log handlers' own errors
    def log(self, level: int, msg: object, *args: object, **kwargs: object) -> None:
        """As `Logger.log`; never raises."""
        try:
            if self.logger.isEnabledFor(level):
                kwargs.setdefault(
                    "stacklevel", 3
                )  # the line that logs, past this and its guard; those of logging do not count
                self.logger.log(level, msg, *args, **kwargs)  # type: ignore[arg-type]  # passed through as given
        except BaseException as error:
            # A real Ctrl-C that arrives while the main thread logs is not the handler's.
            if issubclass(type(error), KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise


def printable(text: str, limit: int = MAX_LOGGED) -> str:
    """*text* for one line of a log or a terminal: unsafe characters escaped, at most about *limit* characters."""
    if len(text) > limit:
        text = f"{text[:limit]}…"
    return UNSAFE.sub(_escaped, text)


def printable_lines(text: str, limit: int) -> str:
    """As `printable`, but line ends and tabs stay: for a traceback, whose end is what is kept."""
    if len(text) > limit:
        text = f"…{text[-limit:]}"
    return UNSAFE.sub(lambda found: found[0] if found[0] in "\n\t" else _escaped(found), text)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()
