"""
The waiter of stores that are notified through a descriptor. Each store has its own source of notifications.

A `DescriptorWaiter` sleeps until its source has something to read, the next look is due, or another thread wakes it.
No method that a signal handler may call waits for a lock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from scheduler.abilities import WakeReason
from scheduler.errors import BackendClosed, BackendError, BackendUnavailable
from scheduler.limits import check_number
from scheduler.processes import PerProcess, process
from scheduler.sleeping import Sleeper


class WakeSource(Protocol):
    """
    Source of a store's notifications. Only one thread at a time uses it.

    A forked child drops its parent's source without closing it, so collecting the object there must not harm the
    parent.
    """

    def look(self, now: float) -> WakeReason:
        """
        Return what has happened since the last look, without waiting.

        Connects if needed, and then also reports what happened before. *now* is by `time.monotonic`. Raises a
        `BackendError` while the store cannot be reached.
        """
        ...

    def next_look(self, now: float) -> tuple[float, Sequence[int]]:
        """Return the seconds until the next look, and descriptors that become readable if one is due earlier."""
        ...

    def close(self) -> None:
        """Close the connection; the next look opens another. May be called after an error, and more than once."""
        ...


class DescriptorWaiter:
    """
    `Waiter` on a `WakeSource`.

    One thread waits. Any thread and any signal handler may notify, interrupt or close. In a forked child, the waiter
    makes a new source, even if Python's fork hooks did not run.
    """

    def __init__(
        self,
        registry: WaiterRegistry,
        queues: Sequence[str],
        make_source: Callable[[Callable[[], None]], WakeSource],
        *,
        rest: float = 0.0,
    ) -> None:
        """
        Make a waiter. Its source connects on the first wait.

        Args:
            registry: The waiters of the backend, which closes them.
            queues: Names of the queues.
            make_source: Called with a function that makes the source's next look due; any thread may call that.
            rest: Seconds between two wakes, so that a flood of notifications does not become a flood of leases.

        Raises:
            BackendUnavailable: The process cannot open more descriptors.
        """
        self.queues = frozenset(queues)
        self._registry = registry
        self._make_source = make_source
        self._rest = rest
        # These are set before the sleeper is woken, and cleared only when acted on. Each change is a single step of the
        # interpreter, so no lock is needed.
        self._notified: set[WakeReason] = set()
        self._interrupted = self._closed = False
        self._open()

    def _open(self) -> None:
        try:
            self._sleeper = Sleeper()
        except OSError as error:
            raise BackendUnavailable(f"cannot make a waiter: {error}") from error
        self._source = self._make_source(self._sleeper.wake)
        self._waiting = threading.Lock()  # held by the thread that waits, or that closes the source
        self._was_away = False  # the store could not be reached: notifications may have been missed
        self._rest_until = 0.0
        self._process = process()
        self._registry.add(self)

    def wait(self, timeout: float) -> WakeReason:
        """
        Wait as described in `Waiter.wait`. Returns NONE at once after `close()`.

        Raises `BackendClosed` if the backend was closed before, and `OSError` if a handler has closed the waiter's
        own descriptors: the caller must then make another waiter.
        """
        deadline = time.monotonic() + check_number("timeout", timeout)
        if self._registry.closed:
            raise BackendClosed("the backend was closed")
        if self._closed:
            return WakeReason.NONE
        if self._process != process():
            self._sleeper.close()  # without the lock, which a thread that exists only in the parent may hold
            self._open()
        try:
            with self._waiting:
                return self._wait(deadline)
        finally:
            self._clean_up()  # after the lock was released: `close` may just have found it held

    def notify(self, reason: WakeReason) -> None:
        """Wake the waiter for *reason*."""
        if reason not in self._notified:
            self._notified.add(reason)
            self._sleeper.wake()

    def interrupt(self) -> None:
        """Make the current or next `wait` return at once."""
        self._interrupted = True
        self._sleeper.wake()

    def close(self) -> None:
        """End the current wait and all later ones. If a thread waits, it closes the connection."""
        self._closed = True
        self._registry.remove(self)
        if self._process != process():  # the source is the parent's
            self._sleeper.close()
        else:
            self._sleeper.wake()
            self._clean_up()

    def _wait(self, deadline: float) -> WakeReason:
        while not self._closed:
            self._sleeper.check()  # if the sleeper's were closed, the source's descriptors may be other files as well
            now = time.monotonic()
            pause = self._rest_until - now
            descriptors: Sequence[int] = ()
            if pause <= 0.0:
                if reason := self._take_notified() or self._look(now):
                    self._interrupted = False
                    self._rest_until = now + self._rest
                    return reason
                now = time.monotonic()
                pause, descriptors = self._source.next_look(now)
            if self._interrupted or now >= deadline:
                self._interrupted = False
                return WakeReason.NONE
            self._sleeper.sleep(min(pause, deadline - now), descriptors)
        return WakeReason.NONE

    def _take_notified(self) -> WakeReason:
        reason = WakeReason.NONE
        while self._notified:
            reason |= self._notified.pop()
        return reason

    def _look(self, now: float) -> WakeReason:
        try:
            reason = self._source.look(now)
        except BackendError:
            self._source.close()
            self._was_away = True
            if self._closed:
                return WakeReason.NONE
            raise
        if self._was_away:
            self._was_away, reason = False, WakeReason.ANY
        return reason

    def _clean_up(self) -> None:
        # A waiting thread does this itself when its wait has ended, since only it may use the source.
        if self._closed and self._waiting.acquire(blocking=False):
            try:
                self._source.close()
                self._sleeper.close()
            finally:
                self._waiting.release()


class WaiterRegistry:
    """Open waiters of one backend in this process, not those of a parent process. Safe in any thread."""

    def __init__(self) -> None:
        self.closed = False
        self._waiters: PerProcess[dict[DescriptorWaiter, None]] = PerProcess()  # its operations are atomic

    def add(self, waiter: DescriptorWaiter) -> None:
        """Add *waiter*, to notify it and to close it together with the backend."""
        self._waiters.get(dict)[waiter] = None

    def remove(self, waiter: DescriptorWaiter) -> None:
        """Remove *waiter*, which is closed."""
        self._waiters.get(dict).pop(waiter, None)

    def notify(self, queues: Collection[str], reason: WakeReason = WakeReason.ANY) -> None:
        """Wake the waiters of *queues* in this process."""
        for waiter in list(self._waiters.get(dict)) if queues else ():
            if not waiter.queues.isdisjoint(queues):
                waiter.notify(reason)

    def close(self) -> None:
        """Close all waiters. Later waits raise `BackendClosed`."""
        self.closed = True
        for waiter in list(self._waiters.get(dict)):
            waiter.close()
