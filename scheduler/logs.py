"""Loggers whose handlers may fail without harm."""

from __future__ import annotations

import logging
import threading


class GuardedLogger(logging.LoggerAdapter[logging.Logger]):
    """Passes on to a logger, and drops whatever its handlers and filters raise."""

    def __init__(self, logger: logging.Logger) -> None:
        super().__init__(logger, None)

    def log(self, level: int, msg: object, *args: object, **kwargs: object) -> None:
        """As `Logger.log`; never raises."""
        try:
            if self.logger.isEnabledFor(level):
                kwargs.setdefault("stacklevel", 2)  # the line that logs; frames of logging itself do not count
                self.logger.log(level, msg, *args, **kwargs)  # type: ignore[arg-type]  # passed through as given
        except BaseException as error:
            # A real Ctrl-C that arrives while the main thread logs is not the handler's.
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise
