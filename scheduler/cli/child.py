"""Worker processes as the supervisor sees them: the process, its socket and messages, and its replacement."""

from __future__ import annotations

import logging
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

_log = logging.getLogger(__name__)
# -P: a module in the working folder, such as a scheduler.py, must not replace one of ours.
_COMMAND = ("-P", "-m", "scheduler.cli", "worker")
_CHUNK = 65_536
_DEFAULT_GRACE = 25.0  # seconds, until the process sends its own grace
_DUMP_TIME = 1.0  # seconds for the dump of its stacks, before it is killed
_NOT_READY_AFTER = 5.0  # seconds of silence; a status comes every second
_FIRST_BACK_OFF, _LONGEST_BACK_OFF = 0.5, 30.0  # seconds before a crashed process is replaced
_HEALTHY_AFTER = 10.0  # seconds: a process that ran so long has working code and is replaced without back-off
_INIT = 1  # the process that inherits all orphans of a container


class Child:
    """
    A worker process and its socket.

    It is started as a new program, because a fork of a process with threads may deadlock. It has its own process group,
    so that Ctrl-C in a terminal reaches it only once, through the supervisor.
    """

    def __init__(self, options: WorkerOptions, worker_id: str, predecessor: str | None, *, first: bool = False) -> None:
        self.worker_id = worker_id
        self.predecessor = predecessor
        self.started = time.monotonic()
        self.status: Status | None = None
        self.silence = 0.0  # seconds since its last message
        self.grace = _DEFAULT_GRACE  # seconds that its stop may take
        self.announced_exit: int | None = None
        self.connected = True  # False once the process has closed its end of the socket
        self._partial_line = b""
        self._stop_requested = False
        self._running_since = math.inf  # by time.monotonic(); inf = its worker has not run yet
        self.socket, theirs = socket.socketpair()
        self.socket.setblocking(False)
        options = replace(options, worker_id=worker_id)
        setup = ChildSetup(socket=theirs.fileno(), options=options, first=first, predecessor=predecessor)
        try:
            with theirs, signals.blocked():
                self.process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
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
    def began(self) -> bool:
        """Whether its worker has run. Before that, it holds no job."""
        return self._running_since < math.inf

    @property
    def stopped_before_start(self) -> bool:
        """Whether a stop was requested before its worker ran. TERM may have killed it then."""
        return self._stop_requested and not self.began

    @property
    def settled(self) -> bool:
        """Whether it has run long enough to show that its code and configuration work."""
        return time.monotonic() - self._running_since > _HEALTHY_AFTER

    def read(self) -> None:
        """Read the messages that have arrived, without waiting."""
        try:
            data = self.socket.recv(_CHUNK)
        except BlockingIOError:
            return
        self.connected = bool(data)
        if data:
            self.silence = 0.0
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        for line in lines:
            self._receive(decode(line))

    def _receive(self, message: Message | None) -> None:
        match message:
            case Status():
                self.status = message
            case Running():
                self.grace = message.grace
                self._running_since = time.monotonic()
            case Exiting():
                self.announced_exit = message.status

    def present_status(self) -> Status | None:
        """Return the last status, None if there is none. A process that sends nothing is not ready."""
        if self.status is None or self.silence < _NOT_READY_AFTER:
            return self.status
        return replace(self.status, ready=False)

    def is_silent(self, seconds: float, limit: float) -> bool:
        """
        Add *seconds* to the time since the last message. Return True if it exceeds *limit* and the stacks were dumped.

        The time before the worker runs does not count, because an import may take long.
        """
        before = self.silence
        self.silence = before + seconds if self.began else 0.0
        if before < limit <= self.silence:
            # Python handles it in C: it works even if a thread never releases the interpreter's lock.
            self.process.send_signal(signal.SIGUSR1)
        return before >= limit + _DUMP_TIME

    def stop(self) -> None:
        """Request a stop within the grace. Sends TERM only once: a second one would end the process at once."""
        if not self._stop_requested:
            self._stop_requested = True
            self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill all processes of its group, and wait for its end."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Slot:
    """
    Place of one worker process, which is restarted after it ends.

    child: None while the slot is empty. start_at: when to start the next child, by time.monotonic(). finished: the slot
    stays empty.
    """

    def __init__(self, number: int, supervisor: str) -> None:
        self.child: Child | None = None
        self.start_at = 0.0
        self.finished = False
        self._first = number == 0
        self._name = f"{supervisor}:{number}"
        self._generation = 0
        self._predecessor: str | None = None
        self._back_off = 0.0

    @property
    def runs(self) -> bool:
        """Whether its process has a running worker."""
        return self.child is not None and self.child.status is not None and self.child.status.live

    def start_child(self, options: WorkerOptions) -> None:
        """Start a process. If the system refuses it, the slot stays empty for the back-off."""
        self._generation += 1
        worker_id = f"{self._name}.{self._generation}"
        first = self._first and self._generation == 1
        try:
            self.child = Child(options, worker_id, self._predecessor, first=first)
        except OSError as error:
            self._wait(0.0)
            _log.error("Worker %s cannot be started (%s), next attempt in %.1f s", worker_id, error, self._back_off)
        else:
            self._predecessor = None
            _log.info("Started worker %s as process %d", worker_id, self.child.process.pid)

    def restart_now(self) -> None:
        """End the back-off, because its cause may have been removed."""
        self._back_off = 0.0
        self.start_at = min(self.start_at, time.monotonic())

    def on_exit(self, child: Child) -> None:
        """Empty the slot after a planned exit of *child*."""
        self.child = None
        # Not at once: with a small --max-memory, for example, processes would be started in a tight loop.
        self.start_at = child.started + _FIRST_BACK_OFF

    def on_crash(self, child: Child, status: int) -> None:
        """
        Empty the slot after a crash of *child*.

        The next child starts after the back-off, and logs the jobs that this one held.
        """
        self.child = None
        # A process whose worker never ran has not logged the jobs of its predecessor.
        self._predecessor = child.worker_id if child.began else child.predecessor
        self._wait(time.monotonic() - child.started)
        how = f"killed by signal {-status}" if status < 0 else f"exit status {status}"
        _log.error("Worker %s died (%s); replaced in %.1f s", child.worker_id, how, self._back_off)

    def _wait(self, lifetime: float) -> None:
        healthy = lifetime > _HEALTHY_AFTER
        self._back_off = 0.0 if healthy else min(_LONGEST_BACK_OFF, self._back_off * 2 or _FIRST_BACK_OFF)
        self.start_at = time.monotonic() + self._back_off


def reap_orphans(children: Container[int]) -> None:
    """
    Reap all processes that have ended, except *children*. Does nothing unless this is process 1.

    The first process of a container becomes the parent of processes whose parents have ended.
    """
    if os.getpid() != _INIT:
        return
    try:
        # WNOWAIT leaves the exit status in place: that of a child is read by its Popen object.
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and ended.si_pid not in children:
            os.waitpid(ended.si_pid, 0)
    except ChildProcessError:  # there are no child processes
        return
