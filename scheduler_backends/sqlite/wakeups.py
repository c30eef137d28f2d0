"""Waiters: told directly within this process, by doorbell from others, and by the change counter where neither can."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Collection, Sequence
from typing import Final

from scheduler.backend import News
from scheduler.errors import BackendClosed
from scheduler.limits import check_number
from scheduler_backends.sql.sleeping import Sleeper
from scheduler_backends.sqlite.doorbells import Doorbell, Ringer, Watched
from scheduler_backends.sqlite.file import File
from scheduler_backends.sqlite.watching import Watch

_REST: Final = 0.005  # seconds between two answers with news: a flood of news must not become a flood of leases


class SqliteWaiter:
    """One thread waits; any may ring, watch, interrupt or close."""

    def __init__(self, bells: Bells, queues: Sequence[str], doorbell: Doorbell | None, watch: Watch) -> None:
        self.queues = frozenset(queues)
        self.name = doorbell.name if doorbell else ""
        self._bells = bells
        self._waiting = threading.Lock()  # held by the thread that waits: what it uses is closed behind it
        self._doorbell = doorbell
        self._watch = watch
        self._sleeper = Sleeper()
        # Set before the sleeper is woken, and cleared only when acted upon; by plain assignment, which needs no lock.
        self._ready = self._sooner = self._interrupted = self._closed = False
        self._told: list[Watched] = []  # appended to by any thread, taken from by the one that waits
        self._rest_until = 0.0

    def wait(self, timeout: float) -> News:
        """See `Waiter.wait`. NONE at once after `close()`; `BackendClosed` when begun after the backend was closed."""
        deadline = time.monotonic() + check_number("timeout", timeout)
        if self._bells.closed:
            raise BackendClosed("the backend was closed")
        with self._waiting:
            while not self._closed:
                now = time.monotonic()
                rests = now < self._rest_until
                if not rests and (news := self._take_news()):
                    self._interrupted = False
                    self._rest_until = now + _REST
                    return news
                if self._interrupted or now >= deadline:
                    self._interrupted = False
                    return News.NONE
                self._sleep(min(deadline, self._rest_until) - now if rests else deadline - now, rests=rests)
            return News.NONE

    def ring(self, news: News) -> None:
        """There is news."""
        told = (self._ready or News.READY not in news) and (self._sooner or News.SOONER not in news)
        if not told:
            self._ready = self._ready or News.READY in news
            self._sooner = self._sooner or News.SOONER in news
            self._sleeper.wake()

    def watch(self, jobs: Sequence[Watched]) -> None:
        """A transaction of this process has stored *jobs*, and may commit."""
        self._told += [job for job in jobs if job[0] in self.queues]
        self._sleeper.wake()

    def interrupt(self) -> None:
        """End the present or next wait. From any thread or signal handler."""
        self._interrupted = True
        self._sleeper.wake()

    def close(self) -> None:
        """End the present wait and all later ones."""
        self._closed = True
        self._bells.remove(self)
        self._sleeper.wake()
        with self._waiting:
            self._watch.close()
            if self._doorbell is not None:
                self._doorbell.close()
            self._sleeper.close()

    def _sleep(self, seconds: float, *, rests: bool) -> None:
        if rests:
            self._sleeper.sleep(seconds)
            return
        pause = self._watch.pause()
        bell = [self._doorbell.socket.fileno()] if self._doorbell else []
        self._sleeper.sleep(seconds if pause is None else min(seconds, pause), bell)

    def _take_news(self) -> News:
        news = News.NONE
        if self._ready:
            self._ready, news = False, News.READY
        if self._sooner:
            self._sooner, news = False, news | News.SOONER
        while self._told:
            self._watch.add([self._told.pop()])
        if self._doorbell is not None:
            rung, watched = self._doorbell.answer(self.queues)
            self._watch.add(watched)
            news |= rung
        return News.ANY if self._watch.look() else news


class Bells:
    """All waiters of a backend, and the way to those of others."""

    def __init__(self, file: File, find: str) -> None:
        self.closed = False
        self._file = file
        self._find = find
        self._folder = f"{file.path}-bells"
        self._ringer = Ringer(self._folder)
        self._lock = threading.Lock()  # guards changes of _waiters, a tuple that is replaced
        self._waiters: tuple[SqliteWaiter, ...] = ()
        _all_bells.add(self)

    def waiter(self, queues: Sequence[str]) -> SqliteWaiter:
        """A waiter that hears of *queues* from now on."""
        doorbell = None
        with contextlib.suppress(OSError):
            doorbell = Doorbell(self._folder)
        waiter = SqliteWaiter(self, queues, doorbell, Watch(self._file, self._find, always=doorbell is None))
        with self._lock:
            self._waiters += (waiter,)
        return waiter

    def remove(self, waiter: SqliteWaiter) -> None:
        """*waiter* hears no more."""
        with self._lock:
            self._waiters = tuple(other for other in self._waiters if other is not waiter)

    def ring(self, queues: Collection[str], news: News = News.ANY) -> None:
        """There is *news* of *queues*, committed."""
        if queues:
            waiters = self._waiters
            for waiter in waiters:
                if not waiter.queues.isdisjoint(queues):
                    waiter.ring(news)
            self._ringer.ring(queues, news, [waiter.name for waiter in waiters])

    def watch(self, jobs: Sequence[Watched]) -> None:
        """A transaction that is not ours has stored *jobs*, and may commit."""
        waiters = self._waiters
        for waiter in waiters:
            waiter.watch(jobs)
        self._ringer.watch(jobs, [waiter.name for waiter in waiters])

    def close(self) -> None:
        """End every wait, for good."""
        self.closed = True
        for waiter in self._waiters:
            waiter.close()
        self._ringer.close()

    def after_fork(self) -> None:
        """In the child: the waiters are the parent's."""
        self._lock = threading.Lock()
        self._waiters = ()


_all_bells: weakref.WeakSet[Bells] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for bells in list(_all_bells):
        bells.after_fork()


os.register_at_fork(after_in_child=_after_fork_in_child)
