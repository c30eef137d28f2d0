"""Starts worker processes, keeps their number, passes signals on, and ends with them. It runs no job itself."""

from __future__ import annotations

import logging
import math
import os
import selectors
import signal
import socket
import time
from collections import deque
from contextlib import ExitStack
from types import FrameType

from scheduler.cli import systemd
from scheduler.cli.exits import Exit
from scheduler.cli.health_port import HealthPort
from scheduler.cli.options import WorkerOptions
from scheduler.cli.orphans import reap_orphans
from scheduler.cli.signals import SAME_SIGNAL
from scheduler.cli.slot import Slot
from scheduler.cli.status import Status
from scheduler.cli.watch import FileWatch
from scheduler.logs import printable

_log = logging.getLogger(__name__)
_TICK = 1.0  # seconds between two looks where nothing happens
_MARGIN = 5.0  # seconds beyond the grace before children that do not end are killed
_FORWARDED = (signal.SIGUSR1,)


class Supervisor:
    """
    `run` blocks on the main thread until all children have ended.

    TERM or INT: children stop within the grace; a second one kills them. USR2: they finish and end. HUP: each is
    replaced in turn. USR1: they dump their stacks.
    """

    def __init__(self, options: WorkerOptions) -> None:
        self._options = options
        name = options.worker_id or f"{socket.gethostname()[:100]}:{os.getpid()}"
        self._slots = [Slot(number, name) for number in range(options.processes)]
        self._selector = selectors.DefaultSelector()
        self._signals: deque[int] = deque()
        self._stopping = False
        self._stop_asked: float | None = None  # by TERM or INT
        self._kill_at: float | None = None
        self._worst = int(Exit.STOPPED)
        self._told_ready = False
        self._looked = time.monotonic()

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
            _log.info("Supervising %d processes of %s", options.processes, printable(options.target))
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
                child = slot.start_child(self._options)
                if child is not None:
                    self._selector.register(child.pipe, selectors.EVENT_READ, child)
        self._tell()
        empty = [slot for slot in self._slots if slot.child is None and not slot.finished and not self._stopping]
        waits = [slot.start_at - now for slot in empty]
        for key, _ in self._selector.select(max(0.0, min([_TICK, *waits]))):
            if key.data is None:
                os.read(key.fd, 4096)
            elif not key.data.read():
                self._selector.unregister(key.fd)  # its end is seen by its exit status
        while self._signals:
            self._handle_signal(self._signals.popleft())
        for slot in self._slots:
            self._reap(slot)
        reap_orphans({slot.child.pid for slot in self._slots if slot.child is not None})
        self._end_silent()
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            self._kill()

    # ---- children

    def _reap(self, slot: Slot) -> None:
        child = slot.child
        if child is None or (status := child.ended()) is None:
            return
        if child.pipe in self._selector.get_map():
            self._selector.unregister(child.pipe)
            child.read()  # its last words
        child.close()
        # Any other end is a death, whatever its status: a handler can leave by os._exit(0) as well.
        meant = status == child.leaving
        if meant and status == Exit.STOPPED:
            slot.empty(child)
            slot.finished = self._options.burst
        elif status in (-signal.SIGTERM, Exit.STOPPED) and child.was_stopped_unborn:
            slot.empty(child)
        elif self._stopping:
            slot.empty(child)
            self._worst = max(self._worst, _positive(status))
        elif meant and status in (Exit.USAGE, Exit.STORE) and not self._worth_trying():
            slot.empty(child)
            _log.error("Worker %s cannot run (exit status %d): stopping all", child.worker_id, status)
            self._worst = status
            self._stop()
        else:
            slot.on_crash(child, status)

    def _worth_trying(self) -> bool:
        """Whether a replacement may end otherwise: somebody is at work on the code, or on a new release of it."""
        return bool(self._options.watch) or any(slot.child and slot.child.settled for slot in self._slots)

    def _end_silent(self) -> None:
        """Kill children that say nothing any more: one thread may keep the interpreter from all others for ever."""
        now = time.monotonic()
        # While this process itself was stopped, its children may have been too.
        passed = min(now - self._looked, 2 * _TICK)
        self._looked = now
        limit = self._options.max_silence or math.inf
        for slot in self._slots:
            if slot.child is not None and slot.child.is_silent(passed, limit):
                _log.error("Worker %s says nothing for %g s and is killed", slot.child.worker_id, limit)
                slot.child.kill()
                self._reap(slot)

    # ---- signals

    def _handle_signal(self, number: int) -> None:
        if number in (signal.SIGTERM, signal.SIGINT):
            now = time.monotonic()
            if self._stop_asked is None:
                self._stop_asked = now
                self._stop()
                graces = [slot.child.grace for slot in self._slots if slot.child is not None]
                self._kill_at = now + max(graces, default=0.0) + _MARGIN
            elif now - self._stop_asked > SAME_SIGNAL:
                self._kill()
        elif number == signal.SIGUSR2:
            self._send(number)  # without a time to kill at: they finish what they hold
            self._end()
        elif number == signal.SIGHUP and not self._stopping:
            _log.info("Replacing all workers")
            for slot in self._slots:  # each ends in order and its slot is filled again
                slot.restart_now() if slot.child is None else slot.child.stop()
        elif number in _FORWARDED:
            self._send(number)

    def _stop(self) -> None:
        self._end()
        for slot in self._slots:
            if slot.child is not None:
                slot.child.stop()

    def _end(self) -> None:
        self._stopping = True
        systemd.notify("STOPPING=1")

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
        # On the health port's threads, while this one empties and fills slots.
        children = [slot.child for slot in self._slots]
        said = [child.present_status() for child in children if child is not None]
        return Status.together([status for status in said if status is not None], expected=len(self._slots))

    def _tell(self) -> None:
        status = self._status()
        # Not whether their store answers: a service manager would give up a service that waits for it.
        if not self._told_ready and all(slot.runs for slot in self._slots):
            self._told_ready = systemd.notify("READY=1")
        systemd.notify("WATCHDOG=1", f"STATUS={status.held} jobs held, {status.stuck} threads stuck")


def _positive(status: int) -> int:
    return status if status >= 0 else int(Exit.CRASHED)
