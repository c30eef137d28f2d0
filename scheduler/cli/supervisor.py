"""The supervisor, which starts worker processes, replaces those that end, and forwards signals to them."""

from __future__ import annotations

import logging
import math
import os
import select
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

from scheduler.cli import signals
from scheduler.cli.child import Child, Slot, reap_orphans
from scheduler.cli.health_port import serve_health
from scheduler.cli.options import WorkerOptions
from scheduler.cli.protocol import Exit, Status
from scheduler.cli.systemd import ServiceManager
from scheduler.logs import printable

_log = logging.getLogger(__name__)
_LONGEST_WAIT = 1.0  # seconds between two turns, at most
_KILL_MARGIN = 5.0  # seconds beyond the grace before children that do not end are killed
_HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD)


class Supervisor:
    """
    Supervisor of worker processes. It runs no job itself. `run` blocks the main thread until all children have ended.

    TERM or INT: the children stop within the grace; a second one kills them. USR2: they finish their jobs and end. HUP:
    each is replaced. USR1: they dump their stacks.
    """

    def __init__(self, options: WorkerOptions) -> None:
        self._options = options
        name = options.worker_id or f"{socket.gethostname()[:100]}:{os.getpid()}"
        self._slots = [Slot(number, name) for number in range(options.processes)]
        self._wake_fd = -1  # the reading end of a pipe to which Python writes the numbers of signals
        self._service = ServiceManager()
        self._stopping = False
        self._stop_requested: float | None = None  # when TERM or INT came, by time.monotonic()
        self._kill_at: float | None = None
        self._worst_exit = int(Exit.STOPPED)
        self._silence_checked = time.monotonic()

    def run(self) -> int:
        """Run until all children have ended, and return the highest exit status of those that ended during the stop."""
        options = self._options
        with ExitStack() as stack:
            self._install_signal_handlers(stack)
            stack.enter_context(serve_health(options, self._status))
            stack.enter_context(signals.hang_up_on_change(options.watch))
            _log.info("Supervising %d processes of %s", options.processes, printable(options.target))
            try:
                while any(self._children()) or not all(slot.finished or self._stopping for slot in self._slots):
                    self._turn()
            finally:
                for child in self._children():
                    child.kill()
                    child.socket.close()
        return self._worst_exit

    def _install_signal_handlers(self, stack: ExitStack) -> None:
        # The handlers do nothing: Python writes each signal's number to the pipe, which ends the wait in poll().
        self._wake_fd, writer = os.pipe()
        for end in (self._wake_fd, writer):
            os.set_blocking(end, False)
            stack.callback(os.close, end)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        stack.callback(signal.set_wakeup_fd, -1)
        for number in _HANDLED:
            signal.signal(number, lambda *_: None)

    def _turn(self) -> None:
        now = time.monotonic()
        empty = [slot for slot in self._slots if not (slot.child or slot.finished or self._stopping)]
        for slot in empty:
            if now >= slot.start_at:
                slot.start_child(self._options)
        self._service.report(self._status(), started=all(slot.runs for slot in self._slots), stopping=self._stopping)
        received = self._wait(min([_LONGEST_WAIT, *(slot.start_at - now for slot in empty if slot.child is None)]))
        for child in self._children():
            child.read()
        for number in received:
            self._handle_signal(number)
        for slot in self._slots:
            self._reap(slot)
        reap_orphans({child.process.pid for child in self._children()})
        self._kill_silent()
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            self._kill()

    def _wait(self, seconds: float) -> bytes:
        """Wait up to *seconds* for a signal or a message. Return the numbers of the signals that have arrived."""
        poll = select.poll()
        # The end of a process that has closed its socket shows in its exit status.
        for descriptor in (self._wake_fd, *(child.socket.fileno() for child in self._children() if child.connected)):
            poll.register(descriptor, select.POLLIN)
        poll.poll(max(0.0, seconds) * 1_000)
        try:
            return os.read(self._wake_fd, 4096)
        except BlockingIOError:
            return b""

    # ---- children

    def _children(self) -> Iterator[Child]:
        return (child for slot in self._slots if (child := slot.child) is not None)

    def _reap(self, slot: Slot) -> None:
        child = slot.child
        if child is None or (status := child.process.poll()) is None:
            return
        child.read()  # its last messages
        child.socket.close()
        # An exit without this message is a crash, whatever its status: a handler can call os._exit(0).
        planned = status == child.announced_exit
        if planned and status == Exit.STOPPED:
            slot.on_exit(child)
            slot.finished = self._options.burst
        elif child.stopped_before_start and status in (-signal.SIGTERM, Exit.STOPPED):
            slot.on_exit(child)
        elif self._stopping:
            slot.on_exit(child)
            self._worst_exit = max(self._worst_exit, status if status >= 0 else Exit.CRASHED)
        elif planned and status in (Exit.USAGE, Exit.STORE) and not self._may_recover():
            slot.on_exit(child)
            _log.error("Worker %s cannot run (exit status %d): stopping all", child.worker_id, status)
            self._worst_exit = status
            self._stop()
        else:
            slot.on_crash(child, status)

    def _may_recover(self) -> bool:
        """Return whether a replacement may succeed: the code is being edited, or a new release is being deployed."""
        return bool(self._options.watch) or any(child.settled for child in self._children())

    def _kill_silent(self) -> None:
        """Kill children that send no status, because a thread may hold the interpreter's lock for ever."""
        now = time.monotonic()
        # While this process was suspended, its children may have been suspended too.
        passed = min(now - self._silence_checked, 2 * _LONGEST_WAIT)
        self._silence_checked = now
        limit = self._options.max_silence or math.inf
        for slot in self._slots:
            if slot.child is not None and slot.child.is_silent(passed, limit):
                _log.error("Worker %s has sent no status for %g s and is killed", slot.child.worker_id, limit)
                slot.child.kill()
                self._reap(slot)

    def _kill(self) -> None:
        for child in self._children():
            if child.process.poll() is None:
                _log.error("Worker %s did not end in time and is killed", child.worker_id)
                self._worst_exit = max(self._worst_exit, Exit.ABANDONED)
                child.kill()
        self._kill_at = None

    def _stop(self) -> None:
        self._stopping = True
        for child in self._children():
            child.stop()

    def _status(self) -> Status:
        # Also called on threads of the health port, while the main thread changes the slots.
        known = [status for child in self._children() if (status := child.present_status()) is not None]
        return Status.sum(known, expected=len(self._slots))

    # ---- signals

    def _handle_signal(self, number: int) -> None:
        match number:
            case signal.SIGTERM | signal.SIGINT:
                self._request_stop()
            case signal.SIGUSR1 | signal.SIGUSR2:
                self._stopping |= number == signal.SIGUSR2  # without a time limit: they finish what they hold
                for child in self._children():
                    child.process.send_signal(number)
            case signal.SIGHUP if not self._stopping:
                _log.info("Replacing all workers")
                for slot in self._slots:
                    slot.restart_now() if slot.child is None else slot.child.stop()

    def _request_stop(self) -> None:
        now = time.monotonic()
        if self._stop_requested is None:
            self._stop_requested = now
            self._stop()
            self._kill_at = now + max((child.grace for child in self._children()), default=0.0) + _KILL_MARGIN
        elif now - self._stop_requested > signals.SAME_SIGNAL:
            self._kill()
