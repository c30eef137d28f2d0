"""What a worker's process does on which signal. Installed on the main thread of a process that the command started."""

from __future__ import annotations

import faulthandler
import math
import os
import signal
import time
from collections.abc import Callable
from types import FrameType

from scheduler.cli import logs
from scheduler.cli.exits import Exit

FORCED = 128  # + the signal's number: the exit status of a process that was ended at once
SAME_SIGNAL = 0.3  # seconds: wrappers such as timeout(1) signal the process and its group, which is one wish
_GRACEFUL = (signal.SIGTERM, signal.SIGINT)
_NOTICE = "Stopping: running jobs may finish. The same signal again ends the process at once."


def install_early(log_format: str) -> None:
    """While the application is imported. USR1: dump all stacks. TERM, INT, HUP, USR2: end, since nothing has begun."""

    def end(_number: int, _frame: FrameType | None) -> None:
        logs.write_now("Stopped before the worker began", log_format, __name__)
        os._exit(Exit.STOPPED)

    for number in (*_GRACEFUL, signal.SIGUSR2, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, end)
    faulthandler.enable(all_threads=False)  # names the line that a segmentation fault came from
    faulthandler.register(signal.SIGUSR1, all_threads=True, chain=False)


def install(request_stop: Callable[[float | None], None], log_format: str) -> None:
    """
    TERM, INT: stop within the grace, a second one at once. HUP: stop within the grace. USR2: lease no more and finish.

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
        logs.write_now(_NOTICE, log_format, __name__)
        request_stop(None)

    def hang_up(_number: int, _frame: FrameType | None) -> None:
        # Not counted as a first TERM: the terminal went, or somebody wants the newest code.
        request_stop(None)

    def drain(_number: int, _frame: FrameType | None) -> None:
        request_stop(math.inf)

    for number in _GRACEFUL:
        signal.signal(number, stop)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # else started by nohup
        signal.signal(signal.SIGHUP, hang_up)
    signal.signal(signal.SIGUSR2, drain)
