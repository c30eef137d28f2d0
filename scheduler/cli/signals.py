"""Signal handlers of a worker process, and HUP when files change. Only the command line installs them."""

from __future__ import annotations

import faulthandler
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from scheduler.cli import logs
from scheduler.cli.protocol import Exit
from scheduler.errors import ConfigError

FORCED = 128  # + the signal's number: the exit status of a process that a second signal ended
SAME_SIGNAL = 0.3  # seconds: two within count as one, since programs like timeout(1) signal both process and group
_GRACEFUL = (signal.SIGTERM, signal.SIGINT)
_BLOCKED_AT_START = (signal.SIGUSR1, signal.SIGUSR2)
_NOTICE = "Stopping: running jobs may finish. The same signal again ends the process at once."


def install_early(log_format: str) -> None:
    """
    Install the handlers for the time of the application's import, when no job has started.

    USR1: dump all stacks. TERM, INT, HUP, USR2: end the process. Unblocks the signals that the supervisor has blocked
    for a new process (see `blocked`).
    """

    def end(_number: int, _frame: FrameType | None) -> None:
        logs.write_now("Stopped before the worker started", log_format, __name__)
        os._exit(Exit.STOPPED)

    for number in (*_GRACEFUL, signal.SIGUSR2, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, end)
    faulthandler.enable(all_threads=False)  # shows the line of a segmentation fault
    faulthandler.register(signal.SIGUSR1, all_threads=True, chain=False)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _BLOCKED_AT_START)


def install(request_stop: Callable[[float | None], None], log_format: str) -> None:
    """
    Install the handlers for the run.

    TERM, INT: stop within the grace; a second one ends the process at once. HUP: stop within the grace. USR2: lease no
    more jobs and finish. *request_stop* is called with the seconds that the stop may take (None = the grace), and must
    be safe inside a signal handler.
    """
    asked_at: float | None = None

    def stop(number: int, _frame: FrameType | None) -> None:
        nonlocal asked_at
        if asked_at is not None:
            if time.monotonic() - asked_at > SAME_SIGNAL:
                os._exit(FORCED + number)  # calls nothing that could wait for a lock
            return
        asked_at = time.monotonic()
        request_stop(None)
        logs.write_now(_NOTICE, log_format, __name__)

    def hang_up(_number: int, _frame: FrameType | None) -> None:
        # Not counted as a first TERM: a terminal was closed, or new code will be loaded.
        request_stop(None)

    def drain(_number: int, _frame: FrameType | None) -> None:
        request_stop(math.inf)

    for number in _GRACEFUL:
        signal.signal(number, stop)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # not started by nohup
        signal.signal(signal.SIGHUP, hang_up)
    signal.signal(signal.SIGUSR2, drain)


@contextmanager
def blocked() -> Iterator[None]:
    """
    Block USR1 and USR2 for a process that is started within the block and inherits the mask.

    These signals would kill the process before it has installed its handlers. The system keeps them until the process
    unblocks them.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED_AT_START)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def hang_up_on_change(folders: Sequence[str]) -> Iterator[None]:
    """Send HUP to this process whenever a Python file under *folders* changes, within the block."""
    if not folders:
        yield
        return
    try:
        from watchfiles import PythonFilter, watch  # noqa: PLC0415 - an extra
    except ModuleNotFoundError:
        raise ConfigError("watch", "needs: pip install 'reliable-scheduler[watch]'") from None
    stop = threading.Event()

    def run() -> None:
        for _ in watch(*folders, watch_filter=PythonFilter(), stop_event=stop, raise_interrupt=False):
            os.kill(os.getpid(), signal.SIGHUP)

    thread = threading.Thread(target=run, name="scheduler-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(5.0)
