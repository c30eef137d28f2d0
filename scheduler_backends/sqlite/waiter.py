"""Waiters: notified directly within the process, and of other processes' commits by the file's log."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final

from scheduler.abilities import WakeReason
from scheduler.arguments import check_queues
from scheduler.errors import BackendClosed
from scheduler.limits import check_number
from scheduler.processes import PerProcess
from scheduler_backends.sql.sleeping import Sleeper
from scheduler_backends.sqlite.errors import translating
from scheduler_backends.sqlite.watching import Watch

if TYPE_CHECKING:
    from scheduler_backends.sqlite.store import Store

_REST: Final = 0.005  # seconds between two returns with news: a flood of news must not become a flood of leases
_SHORT: Final = 0.001  # seconds: the shortest sleep that the sleeper knows


class SqliteWaiter:
    """One thread waits; any may notify, interrupt or close."""

    def __init__(self, registry: WaiterRegistry, queues: Sequence[str], make_watch: Callable[..., Watch]) -> None:
        self.queues = frozenset(queues)
        self._registry = registry
        self._pid = os.getpid()
        self._waiting = threading.Lock()  # held by the thread that waits: what it uses is closed behind it
        self._sleeper = Sleeper()
        self._watch = make_watch(queues=self.queues, wake=self._sleeper.wake)
        # Set before the sleeper is woken, and cleared only when acted upon; by plain assignment, which needs no lock.
        self._ready = self._sooner = self._interrupted = self._closed = False
        self._rest_until = 0.0

    def wait(self, timeout: float) -> WakeReason:
        """See `Waiter.wait`. NONE at once after `close()`; `BackendClosed` when begun after the backend was closed."""
        deadline = time.monotonic() + check_number("timeout", timeout)
        if self._registry.closed:
            raise BackendClosed("the backend was closed")
        if self._pid != os.getpid():
            raise BackendClosed("the waiter belongs to the process that forked this one: make another")
        # Errors of the sleeper pass: a handler has closed its sockets, and the worker had better be replaced.
        with self._waiting:
            while not self._closed:
                now = time.monotonic()
                rests = now < self._rest_until
                if not rests and (news := self._take_news(now)):
                    self._interrupted = False
                    self._rest_until = now + _REST
                    return news
                if self._interrupted or now >= deadline:
                    self._interrupted = False
                    return WakeReason.NONE
                self._sleep(min(deadline, self._rest_until) - now if rests else deadline - now, now, rests=rests)
            return WakeReason.NONE

    def notify(self, news: WakeReason) -> None:
        """There is news."""
        told = (self._ready or WakeReason.JOBS_READY not in news) and (
            self._sooner or WakeReason.EARLIER_DUE_TIME not in news
        )
        if not told:
            self._ready = self._ready or WakeReason.JOBS_READY in news
            self._sooner = self._sooner or WakeReason.EARLIER_DUE_TIME in news
            self._sleeper.wake()

    def interrupt(self) -> None:
        """End the present or next wait. From any thread or signal handler."""
        self._interrupted = True
        self._sleeper.wake()

    def close(self) -> None:
        """End the present wait and all later ones."""
        self._closed = True
        self._registry.remove(self)
        if self._pid != os.getpid():  # the parent's: its thread may have been waiting
            return
        self._sleeper.wake()
        with self._waiting:
            self._watch.close()
            self._sleeper.close()

    def _sleep(self, seconds: float, now: float, *, rests: bool) -> None:
        if rests:
            self._sleeper.sleep(seconds)
            return
        pause, descriptors = self._watch.sleep_for(now)
        pause = min(seconds, pause)
        if 0.0 < pause < _SHORT:
            time.sleep(pause)
        else:
            self._sleeper.sleep(pause, descriptors)

    def _take_news(self, now: float) -> WakeReason:
        news = WakeReason.NONE
        if self._ready:
            self._ready, news = False, WakeReason.JOBS_READY
        if self._sooner:
            self._sooner, news = False, news | WakeReason.EARLIER_DUE_TIME
        return news or self._watch.look(now)


class WaitHooks:
    """The ability `Wakeups`."""

    _store: Store

    def waiter(self, queues: Sequence[str]) -> SqliteWaiter:
        """See `Wakeups.waiter`."""
        return self._store.waiters.waiter(check_queues(queues))


class WaiterRegistry:
    """All waiters of a backend in this process."""

    def __init__(self, make_watch: Callable[..., Watch]) -> None:
        self.closed = False
        self._make_watch = make_watch
        self._waiters: PerProcess[dict[SqliteWaiter, None]] = PerProcess()

    def waiter(self, queues: Sequence[str]) -> SqliteWaiter:
        """A waiter for *queues*, which connects when it first waits."""
        with translating("a waiter"):
            waiter = SqliteWaiter(self, queues, self._make_watch)
        self._waiters.get(dict)[waiter] = None
        return waiter

    def remove(self, waiter: SqliteWaiter) -> None:
        """*waiter* is not to be notified any more."""
        self._waiters.get(dict).pop(waiter, None)

    def notify(self, queues: Collection[str], news: WakeReason = WakeReason.ANY) -> None:
        """There is *news* of *queues*, committed by this process."""
        for waiter in list(self._waiters.get(dict)) if queues else ():
            if not waiter.queues.isdisjoint(queues):
                waiter.notify(news)

    def close(self) -> None:
        """End every wait, for good."""
        self.closed = True
        for waiter in list(self._waiters.get(dict)):
            waiter.close()
