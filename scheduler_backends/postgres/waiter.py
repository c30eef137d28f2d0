"""Waiters: told by LISTEN where the server is heard, else left to the worker's own polls."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from scheduler.abilities import WakeReason
from scheduler.arguments import check_queues
from scheduler.errors import BackendClosed, BackendError, BackendUnavailable
from scheduler.limits import check_number
from scheduler.processes import process
from scheduler_backends.postgres.listening import Listener
from scheduler_backends.postgres.notifier import HUSH, Notifier
from scheduler_backends.postgres.registry import WaiterRegistry
from scheduler_backends.postgres.store import Store
from scheduler_backends.sql.sleeping import Sleeper

_HEARD_WITHIN: Final = 1.0  # seconds in which a listener must hear its own nonce
_ASK_EVERY: Final = (
    60.0  # seconds of silence after which it is asked again: a firewall may have forgotten the connection
)
_DEAF_FOR: Final = 60.0  # seconds after which a listener that hears nothing is given another chance
_NONCE: Final = "\1"  # begins a nonce, and no queue's name

_log = logging.getLogger("scheduler.postgres")


class WaiterHooks:
    """Wake-ups, by LISTEN."""

    _store: Store

    def waiter(self, queues: Sequence[str]) -> PostgresWaiter:
        """See `Wakeups`. Connects when first used, by a connection of its own."""
        names, store = check_queues(queues), self._store
        database = store.listening
        if database is None:
            _log.warning("pgbouncer passes no notifications on: workers poll; give a direct listen_url")
        listen = None if database is None else lambda: Listener(database, store.channel)
        try:
            waiter = PostgresWaiter(store.waiters, names, listen, store.notifier)
        except OSError as error:
            raise BackendUnavailable(f"no waiter can be made: {error}") from error
        store.waiters.add(waiter)
        return waiter


class PostgresWaiter:
    """One thread waits; any may interrupt or close."""

    def __init__(
        self, waiters: WaiterRegistry, queues: Sequence[str], listen: Callable[[], Listener] | None, notifier: Notifier
    ) -> None:
        self._waiters = waiters
        self._queues = frozenset(queues)
        self._listen = listen
        self._notifier = notifier
        self._interrupted = self._closed = False  # set before the sleeper is woken, by plain assignment
        self._begin()

    def _begin(self) -> None:
        self._process = process()
        self._sleeper = Sleeper()
        self._waiting = threading.Lock()  # held by the thread that waits, whose are all fields below
        self._listener: Listener | None = None
        self._nonce = ""
        self._nonce_until = 0.0  # when the nonce must have been heard, or, without one, when the next is sent
        self._was_heard = False
        self._deaf_until = 0.0
        self._look_again: float | None = None

    def wait(self, timeout: float) -> WakeReason:
        """See `Waiter.wait`. NONE at once after `close()`; `BackendClosed` when begun after the backend was closed."""
        deadline = time.monotonic() + check_number("timeout", timeout)
        if self._waiters.closed:
            raise BackendClosed("the backend was closed")
        self._begin_anew_in_child()
        with self._waiting:
            while not self._closed:
                try:
                    news = self._has_news()
                except BackendError:
                    self._hang_up()
                    raise
                now = time.monotonic()
                if news or self._interrupted or now >= deadline:
                    self._interrupted = False
                    return WakeReason.ANY if news else WakeReason.NONE
                self._sleeper.sleep(self._until(deadline) - now, [self._listener.fileno()] if self._listener else [])
            return WakeReason.NONE

    def interrupt(self) -> None:
        """End the present or next wait. From any thread or signal handler."""
        self._interrupted = True
        self._sleeper.wake()

    def close(self) -> None:
        """End the present wait and all later ones."""
        self._closed = True
        self._begin_anew_in_child()
        self._waiters.remove(self)
        self._sleeper.wake()
        with self._waiting:
            self._hang_up()
            self._sleeper.close()

    def _begin_anew_in_child(self) -> None:
        if self._process != process():
            self._parents = self._listener  # not to be closed: that would end the parent's session
            self._sleeper.close()
            self._begin()

    def _has_news(self) -> bool:
        now = time.monotonic()
        if self._listener is None:
            if self._listen is None or now < self._deaf_until:
                return False
            self._listener = self._listen()
            self._ask(now)
            return True  # whatever came before is not heard
        news = False
        for payload in self._listener.received():
            if payload == self._nonce:
                self._nonce, self._nonce_until, self._was_heard = "", now + _ASK_EVERY, True
            news = news or payload in self._queues
        if news:
            # Work that is committed within HUSH of a notification is not told of: see `notifier`.
            self._look_again = now + HUSH
        elif self._look_again is not None and now >= self._look_again:
            self._look_again = None
            news = True
        if now >= self._nonce_until:
            if not self._nonce:
                self._ask(now)
            else:
                self._give_up(now)
        return news

    def _ask(self, now: float) -> None:
        self._nonce, self._nonce_until = f"{_NONCE}{secrets.token_hex(8)}", now + _HEARD_WITHIN
        self._notifier.send([self._nonce])

    def _give_up(self, now: float) -> None:
        self._hang_up()
        if self._was_heard:  # this connection has died: the next turn makes another
            self._was_heard = False
            return
        self._deaf_until = now + _DEAF_FOR
        _log.warning(
            "LISTEN hears nothing, as behind pgbouncer in transaction mode: workers poll; give a direct listen_url"
        )

    def _hang_up(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()

    def _until(self, deadline: float) -> float:
        again = deadline if self._look_again is None else self._look_again
        if self._listener is not None:
            return min(deadline, again, self._nonce_until)
        return deadline if self._listen is None else min(deadline, self._deaf_until)
