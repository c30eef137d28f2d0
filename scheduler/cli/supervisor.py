"""Starts worker processes, keeps their number, passes signals on, and ends with them. It runs no job itself."""

from __future__ import annotations

import logging
import os
import selectors
import signal
import socket
import time
from collections import deque
from contextlib import ExitStack
from types import FrameType

from scheduler.cli import systemd
from scheduler.cli.child import Child
from scheduler.cli.exits import Exit
from scheduler.cli.health_port import HealthPort
from scheduler.cli.options import WorkerOptions
from scheduler.cli.signals import SAME_SIGNAL
from scheduler.cli.status import Status, write_health_file
from scheduler.cli.watch import FileWatch

_log = logging.getLogger(__name__)
_TICK = 1.0  # seconds between two looks where nothing happens
_FIRST_BACK_OFF, _LONGEST_BACK_OFF = 0.5, 30.0  # seconds before a dead child is replaced
_HEALTHY_AFTER = 10.0  # seconds: a child that lived so long is replaced without back-off again
_MARGIN = 5.0  # seconds beyond the grace before children that do not end are killed
_DEFAULT_GRACE = 25.0
_FORWARDED = (signal.SIGUSR1,)


class Slot:
    """One of the places that the supervisor keeps filled."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.generation = 0
        self.child: Child | None = None
        self.predecessor: str | None = None
        self.back_off = 0.0
        self.start_at = 0.0  # by time.monotonic()
        self.finished = False  # ended as asked, and is not to be filled again


class Supervisor:
    """
    `run` blocks on the main thread until all children have ended.

    TERM or INT: children stop within the grace; a second one kills them. USR2: they finish and end. HUP: each is
    replaced in turn. USR1: they dump their stacks.
    """

    def __init__(self, options: WorkerOptions) -> None:
        self._options = options
        self._slots = [Slot(number) for number in range(options.processes)]
        self._selector = selectors.DefaultSelector()
        self._signals: deque[int] = deque()
        self._stopping = False
        self._stop_asked: float | None = None  # by TERM or INT
        self._kill_at: float | None = None
        self._worst = int(Exit.STOPPED)
        self._name = f"{socket.gethostname()[:100]}:{os.getpid()}"
        self._told_ready = False

    def run(self) -> int:
        """Supervise to the end and answer the worst exit status of a child that ended a run on purpose."""
        options = self._options
        with ExitStack() as stack:
            stack.callback(self._selector.close)
            self._install(stack)
            if options.health_port is not None:
                port = HealthPort(options.health_host, options.health_port, self._status, metrics=options.metrics)
                stack.enter_context(port)
                _log.info("Health is served on http://%s:%d/ready", options.health_host, port.port)
            if options.watch:
                stack.enter_context(FileWatch(options.watch, lambda: os.kill(os.getpid(), signal.SIGHUP)))
            try:
                while not self._done():
                    self._turn()
            finally:
                for slot in self._slots:
                    if slot.child is not None:
                        slot.child.kill()
                        slot.child.close()
        return self._worst

    def _install(self, stack: ExitStack) -> None:
        # The handler only notes the number; the wake-up pipe ends the wait in select().
        reader, writer = os.pipe()
        for end in (reader, writer):
            os.set_blocking(end, False)
            stack.callback(os.close, end)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        stack.callback(signal.set_wakeup_fd, -1)
        self._selector.register(reader, selectors.EVENT_READ, None)

        def note(number: int, _frame: FrameType | None) -> None:
            self._signals.append(number)

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD):
            signal.signal(number, note)

    def _done(self) -> bool:
        return all(slot.child is None and (slot.finished or self._stopping) for slot in self._slots)

    def _turn(self) -> None:
        now = time.monotonic()
        for slot in self._slots:
            if slot.child is None and not self._stopping and not slot.finished and now >= slot.start_at:
                self._start(slot)
        self._tell()
        waits = [slot.start_at - now for slot in self._slots if slot.child is None and not slot.finished]
        for key, _ in self._selector.select(max(0.0, min([_TICK, *waits]))):
            if key.data is None:
                os.read(key.fd, 4096)
            elif not key.data.read():
                self._selector.unregister(key.fd)  # its end is seen by its exit status
        while self._signals:
            self._heed(self._signals.popleft())
        for slot in self._slots:
            self._reap(slot)
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            self._kill()

    # ---- children

    def _start(self, slot: Slot) -> None:
        slot.generation += 1
        worker_id = f"{self._name}:{slot.number}.{slot.generation}"
        slot.child = Child(self._options, worker_id, slot.predecessor)
        slot.predecessor = None
        self._selector.register(slot.child.pipe, selectors.EVENT_READ, slot.child)
        _log.info("Started worker %s as process %d", worker_id, slot.child.pid)

    def _reap(self, slot: Slot) -> None:
        child = slot.child
        if child is None or (status := child.ended()) is None:
            return
        slot.child = None
        if child.pipe in self._selector.get_map():
            self._selector.unregister(child.pipe)
        child.close()
        if status == Exit.STOPPED:
            slot.finished = self._options.burst
            # A child that has reached its goal at once, such as a small --max-memory, must not be started in a spin.
            slot.start_at = child.started + _FIRST_BACK_OFF
        elif self._stopping:
            # A child that the signal met before it had installed its handlers had leased nothing either.
            if status != -signal.SIGTERM:
                self._worst = max(self._worst, _positive(status))
        else:
            self._mourn(slot, child, status)

    def _mourn(self, slot: Slot, child: Child, status: int) -> None:
        """A child has died unasked: replace it, or stop all where every replacement would end the same way."""
        if status in (Exit.USAGE, Exit.STORE):
            _log.error("Worker %s cannot run (exit status %d): stopping all", child.worker_id, status)
            self._worst = status
            self._stop(signal.SIGTERM)
            return
        now = time.monotonic()
        healthy = now - child.started > _HEALTHY_AFTER
        slot.back_off = 0.0 if healthy else min(_LONGEST_BACK_OFF, slot.back_off * 2 or _FIRST_BACK_OFF)
        slot.start_at = now + slot.back_off
        slot.predecessor = child.worker_id
        how = f"killed by signal {-status}" if status < 0 else f"exit status {status}"
        _log.error("Worker %s died (%s); replaced in %.1f s", child.worker_id, how, slot.back_off)

    # ---- signals

    def _heed(self, number: int) -> None:
        if number in (signal.SIGTERM, signal.SIGINT):
            now = time.monotonic()
            if self._stop_asked is None:
                self._stop_asked = now
                self._stop(signal.SIGTERM)
                self._kill_at = now + (self._options.grace or _DEFAULT_GRACE) + _MARGIN
            elif now - self._stop_asked > SAME_SIGNAL:
                self._kill()
        elif number == signal.SIGUSR2:
            self._stop(number)  # without a time to kill at: they finish what they hold
        elif number == signal.SIGHUP and not self._stopping:
            _log.info("Replacing all workers")
            self._send(signal.SIGTERM)  # each ends in order and its slot is filled again
        elif number in _FORWARDED:
            self._send(number)

    def _stop(self, number: int) -> None:
        self._stopping = True
        systemd.notify("STOPPING=1")
        self._send(number)

    def _send(self, number: int) -> None:
        for slot in self._slots:
            if slot.child is not None:
                slot.child.signal(number)

    def _kill(self) -> None:
        for slot in self._slots:
            if slot.child is not None and slot.child.ended() is None:
                _log.error("Worker %s did not end in time and is killed", slot.child.worker_id)
                self._worst = max(self._worst, int(Exit.ABANDONED))
                slot.child.kill()
        self._kill_at = None

    # ---- telling

    def _status(self) -> Status:
        statuses = [
            slot.child.status for slot in self._slots if slot.child is not None and slot.child.status is not None
        ]
        return Status.together(statuses, expected=len(self._slots))

    def _tell(self) -> None:
        status = self._status()
        if status.ready and not self._told_ready:
            self._told_ready = True
            systemd.notify("READY=1")
        systemd.notify("WATCHDOG=1", f"STATUS={status.held} jobs held, {status.stuck} threads stuck")
        if self._options.health_file is not None:
            write_health_file(self._options.health_file, status)


def _positive(status: int) -> int:
    return status if status >= 0 else int(Exit.CRASHED)
