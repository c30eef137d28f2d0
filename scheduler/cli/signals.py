"""What a worker's process does on which signal. Installed on the main thread of a process that the command started."""

from __future__ import annotations

import faulthandler
import json
import math
import os
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime
from types import FrameType

FORCED = 128  # + the signal's number: the exit status of a process that was ended at once
SAME_SIGNAL = 0.3  # seconds: wrappers such as timeout(1) signal the process and its group, which is one wish
_GRACEFUL = (signal.SIGTERM, signal.SIGINT)
_NOTICE = "Stopping: running jobs may finish. The same signal again ends the process at once."


def install(request_stop: Callable[[float | None], None], log_format: str) -> None:
    """
    TERM, INT: stop within the grace, a second one at once. USR2: lease no more and finish. USR1: dump all stacks.

    *request_stop* takes the seconds that the stop may last, None = the grace, and must be safe in a signal handler.
    """
    asked_at: float | None = None

    def stop(number: int, _frame: FrameType | None) -> None:
        nonlocal asked_at
        if asked_at is not None:
            if time.monotonic() - asked_at > SAME_SIGNAL:
                os._exit(FORCED + number)  # nothing that could wait for a lock: the person who signals is in a hurry
            return
        asked_at = time.monotonic()
        _say(_NOTICE, log_format)
        request_stop(None)

    def drain(_number: int, _frame: FrameType | None) -> None:
        request_stop(math.inf)

    for number in _GRACEFUL:
        signal.signal(number, stop)
    if hasattr(signal, "SIGUSR2"):
        signal.signal(signal.SIGUSR2, drain)
    faulthandler.enable(all_threads=False)  # names the line that a segmentation fault came from
    if hasattr(signal, "SIGUSR1"):
        faulthandler.register(signal.SIGUSR1, all_threads=True, chain=False)


def _say(text: str, log_format: str) -> None:
    # Not by logging or a stream: the signal may have come while this thread held their locks.
    if log_format == "json":
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        text = json.dumps({"time": now, "level": "INFO", "logger": __name__, "process": os.getpid(), "message": text})
    try:
        os.write(2, f"{text}\n".encode())
    except OSError:
        return
