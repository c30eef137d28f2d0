"""The supervisor's side of one worker process: the process, its socket, and the messages from it."""

from __future__ import annotations

import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Container
from contextlib import suppress
from dataclasses import replace

from scheduler.cli import signals
from scheduler.cli.options import WorkerOptions
from scheduler.cli.protocol import ChildSetup, Exiting, Message, Running, Status, decode

# -P: a module in the working folder, such as a scheduler.py, must not replace one of ours.
_COMMAND = ("-P", "-m", "scheduler.cli", "worker")
_CHUNK = 65_536
_DEFAULT_GRACE = 25.0  # until it sends its own
_DUMP_TIME = 1.0  # seconds for the dump of its stacks before it is killed
_NOT_READY_AFTER = 5.0  # seconds of silence; a status comes every second
_SETTLED_AFTER = 10.0  # seconds
_INIT = 1  # the process that inherits all orphans of a container


class Child:
    """
    A worker process, started as a new program: a fork of a process with threads may deadlock.

    It has a process group of its own, so that Ctrl-C in a terminal reaches it once, through the supervisor.
    """

    def __init__(self, options: WorkerOptions, worker_id: str, predecessor: str | None, *, first: bool = False) -> None:
        self.worker_id = worker_id
        self.predecessor = predecessor
        self.started = time.monotonic()
        self.status: Status | None = None
        self.silence: float | None = None  # seconds since its last message, None = its worker does not run yet
        self.grace = _DEFAULT_GRACE  # seconds that its stop may take
        self.announced_exit: int | None = None
        self._partial_line = b""
        self._stop_requested = False
        self._running_since = math.inf  # by time.monotonic()
        self.socket, theirs = socket.socketpair()
        self.socket.setblocking(False)
        options = replace(options, worker_id=worker_id)
        setup = ChildSetup(socket=theirs.fileno(), options=options, first=first, predecessor=predecessor)
        try:
            with theirs, signals.blocked():
                self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                    [sys.executable, *_COMMAND, f"--worker-id={worker_id}", "--", options.target],
                    env=os.environ | setup.environment(),
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                    stdin=subprocess.DEVNULL,
                )
        except OSError:  # the system's limit of processes, or no memory
            self.socket.close()
            raise

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def began(self) -> bool:
        """Whether its worker has run: before that it holds no job."""
        return self.silence is not None

    @property
    def stopped_before_start(self) -> bool:
        """Whether it was asked to stop before its worker ran: TERM may have killed it then."""
        return self._stop_requested and not self.began

    @property
    def settled(self) -> bool:
        """Whether it has run for so long that its code and configuration are known to work."""
        return time.monotonic() - self._running_since > _SETTLED_AFTER

    def exit_status(self) -> int | None:
        """Return the exit status, negative for a signal; None while the process runs."""
        return self._process.poll()

    def read(self) -> bool:
        """Read the messages that have come; False when the process has closed its end of the socket."""
        try:
            data = self.socket.recv(_CHUNK)
        except BlockingIOError:
            return True
        if not data:
            return False
        if self.silence is not None:
            self.silence = 0.0
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        for line in lines:
            self._receive(decode(line))
        return True

    def _receive(self, message: Message | None) -> None:
        match message:
            case Status():
                self.status = message
            case Running():
                self.grace = message.grace
                self.silence, self._running_since = 0.0, time.monotonic()
            case Exiting():
                self.announced_exit = message.status

    def present_status(self) -> Status | None:
        """Return the last status, None if none has come. A silent process is not ready."""
        if self.status is None or (self.silence or 0.0) < _NOT_READY_AFTER:
            return self.status
        return replace(self.status, ready=False)

    def is_silent(self, seconds: float, limit: float) -> bool:
        """Add *seconds* to the time since the last message; True once it exceeds *limit* and stacks were dumped."""
        if self.silence is None:
            return False
        before, self.silence = self.silence, self.silence + seconds
        if before < limit <= self.silence:
            # Handled in C: it works even if a thread never releases the interpreter's lock.
            self.signal(signal.SIGUSR1)
        return before >= limit + _DUMP_TIME

    def stop(self) -> None:
        """Request a stop within the grace, once: a second TERM would end the process at once."""
        if not self._stop_requested:
            self._stop_requested = True
            self.signal(signal.SIGTERM)

    def signal(self, number: int) -> None:
        """Send a signal if the process still runs. USR1 and USR2 take effect once it can handle them."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill every process of its group, and wait for its end."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def reap_orphans(children: Container[int]) -> None:
    """
    Reap all ended processes except *children*. Does nothing unless this is process 1.

    The first process of a container inherits the programs whose parents have ended.
    """
    if os.getpid() != _INIT:
        return
    try:
        # WNOWAIT only looks: the exit status of a child is read by its Popen object.
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and ended.si_pid not in children:
            os.waitpid(ended.si_pid, 0)
    except ChildProcessError:  # there are none
        return
