"""The supervisor's end of one child: its process, its pipes, what it last said."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress

from scheduler.cli.link import LIFELINE_FD, PREDECESSOR, PROCESSES, STATUS_FD
from scheduler.cli.options import WorkerOptions
from scheduler.cli.status import Status

_CHUNK = 65_536


class Child:
    """
    A worker's process, spawned as a program of its own: a fork of a process with threads may deadlock.

    In a process group of its own, so that a terminal's Ctrl-C reaches it through the supervisor alone, once.
    """

    def __init__(self, options: WorkerOptions, worker_id: str, predecessor: str | None) -> None:
        self.worker_id = worker_id
        self.started = time.monotonic()
        self.status: Status | None = None
        self._partial = b""
        self.pipe, status = os.pipe()
        lifeline, self._lifeline = os.pipe()
        os.set_blocking(self.pipe, False)
        environment = {
            **os.environ,
            STATUS_FD: str(status),
            LIFELINE_FD: str(lifeline),
            PROCESSES: str(options.processes),
        }
        if predecessor is not None:
            environment[PREDECESSOR] = predecessor
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                options.child_command(worker_id),
                env=environment,
                pass_fds=(status, lifeline),
                start_new_session=True,
                stdin=subprocess.DEVNULL,
            )
        finally:
            os.close(status)
            os.close(lifeline)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def ended(self) -> int | None:
        """The exit status, negative for a signal; None while it lives."""
        return self._process.poll()

    def read(self) -> bool:
        """Take in what the child said; False when it has closed its end."""
        try:
            data = os.read(self.pipe, _CHUNK)
        except BlockingIOError:
            return True
        if not data:
            return False
        *lines, self._partial = (self._partial + data).split(b"\n")
        if lines:
            with suppress(ValueError, TypeError):  # a child of another version, in the middle of an upgrade
                self.status = Status.from_json(lines[-1])
        return True

    def signal(self, number: int) -> None:
        """Send a signal, if the child still lives."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """End the child at once, and every process of its group."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """Let go of the pipes."""
        os.close(self.pipe)
        os.close(self._lifeline)
