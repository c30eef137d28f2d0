"""The supervisor's end of one child: its process, its pipes, what it last said."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import replace
from typing import cast

from scheduler.cli.link import FIRST, GRACE, HEARS, LEAVING, LIFELINE_FD, PREDECESSOR, PROCESSES, STATUS_FD
from scheduler.cli.options import WorkerOptions
from scheduler.cli.status import Status

_CHUNK = 65_536
_DEFAULT_GRACE = 25.0  # before it says its own
_DUMPED_IN = 1.0  # seconds that it has to say where it stands, before it is killed
_NOT_READY_AFTER = 5.0  # seconds of silence; it speaks every second
_SETTLED_AFTER = 10.0  # seconds


class Child:
    """
    A worker's process, spawned as a program of its own: a fork of a process with threads may deadlock.

    In a process group of its own, so that a terminal's Ctrl-C reaches it through the supervisor alone, once.
    """

    def __init__(self, options: WorkerOptions, worker_id: str, predecessor: str | None, *, first: bool = False) -> None:
        self.worker_id = worker_id
        self.predecessor = predecessor
        self.started = time.monotonic()
        self.status: Status | None = None
        self.silence: float | None = None  # seconds since it last said something, None = it has not begun to
        self.grace = _DEFAULT_GRACE  # seconds that its stop may take
        self.leaving: int | None = None  # the exit status that it said it would end with
        self._partial = b""
        self._asked_to_stop = False
        self._began_at = math.inf  # by time.monotonic()
        self._hears = False
        self._waiting: list[int] = []  # signals for the time when it hears them
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
        if first:
            environment[FIRST] = "1"
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                options.child_command(worker_id),
                env=environment,
                pass_fds=(status, lifeline),
                start_new_session=True,
                stdin=subprocess.DEVNULL,
            )
        except OSError:  # no more processes, no memory
            self.close()
            raise
        finally:
            os.close(status)
            os.close(lifeline)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def was_stopped_unborn(self) -> bool:
        """Whether it was asked to stop before it began: it had no signal handlers then."""
        return self._asked_to_stop and not self.began

    @property
    def settled(self) -> bool:
        """Whether it has run for so long that neither its code nor its configuration can be what ends others."""
        return time.monotonic() - self._began_at > _SETTLED_AFTER

    @property
    def began(self) -> bool:
        """Whether it has said hello: before that it holds no job."""
        return self.silence is not None

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
        if self.silence is not None:
            self.silence = 0.0
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            with suppress(ValueError, TypeError):  # a child of another version, in the middle of an upgrade
                self._hear(json.loads(line))
        return True

    def _hear(self, said: dict[str, object]) -> None:
        if HEARS in said:
            self._hears = True
            while self._waiting:
                self.signal(self._waiting.pop(0))
        elif LEAVING in said:
            self.leaving = cast("int", said[LEAVING])
        elif GRACE in said:
            self.grace = cast("float", said[GRACE])
            self.silence, self._began_at = 0.0, time.monotonic()
        else:
            self.status = Status(**said)  # type: ignore[arg-type]  # by name; a wrong one is a TypeError

    def present_status(self) -> Status | None:
        """What it last said, None = nothing yet; one that says nothing any more is not ready."""
        if self.status is None or (self.silence or 0.0) < _NOT_READY_AFTER:
            return self.status
        return replace(self.status, ready=False)

    def is_silent(self, seconds: float, limit: float) -> bool:
        """Note that *seconds* have passed; whether it has said nothing for *limit*, and dumped its stacks since."""
        if self.silence is None:
            return False
        before, self.silence = self.silence, self.silence + seconds
        if before < limit <= self.silence:
            # Handled in C: a thread that keeps the interpreter to itself does not hinder it.
            self.signal(signal.SIGUSR1)
        return before >= limit + _DUMPED_IN

    def stop(self) -> None:
        """Ask it to stop within its grace, once: the same signal again would end it at once."""
        if not self._asked_to_stop:
            self._asked_to_stop = True
            self.signal(signal.SIGTERM)

    def signal(self, number: int) -> None:
        """Send a signal, if the child still lives; one that it does not hear yet is sent as soon as it does."""
        if self._hears or number == signal.SIGTERM:
            self._process.send_signal(number)
        elif number not in self._waiting:
            self._waiting.append(number)

    def kill(self) -> None:
        """End the child at once, and every process of its group."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """Let go of the pipes."""
        os.close(self.pipe)
        os.close(self._lifeline)
