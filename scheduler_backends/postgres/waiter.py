"""The ability Wakeups, by LISTEN."""

from __future__ import annotations

import contextlib
import logging
import math
import secrets
from collections.abc import Collection, Sequence
from typing import Final

from psycopg import sql

from scheduler.abilities import Waiter, WakeReason
from scheduler.limits import check_queues
from scheduler.sleeping import Ownership
from scheduler.waiting import DescriptorWaiter
from scheduler_backends.postgres.database import Database, Driver
from scheduler_backends.postgres.errors import translating
from scheduler_backends.postgres.notifier import HUSH
from scheduler_backends.postgres.store import Store

# Seconds.
_NONCE_WITHIN: Final = 1.0  # a listener must receive its own nonce in this time
_NONCE_EVERY: Final = 60.0  # between two nonces: a firewall may have forgotten the connection
_POLL_FOR: Final = 60.0  # until a listener that receives nothing is given another chance

_NONCE: Final = "\1"  # begins a nonce, and no queue's name

# Connections whose descriptor somebody has closed, kept for ever: libpq would close the number, which may be another's.
_abandoned: list[object] = []

_log = logging.getLogger("scheduler.postgres")


class WaiterHooks:
    """Wake-ups by LISTEN. Where it does not work, workers poll."""

    _store: Store

    def waiter(self, queues: Sequence[str]) -> Waiter:
        """See `Wakeups.waiter`. The connection is one of its own."""
        names, store = check_queues(queues), self._store
        if store.listening is None:
            _log.warning("pgbouncer passes no notifications on: workers poll; give a direct listen_url")
        return DescriptorWaiter(store.waiters, names, lambda _: ListenSource(store, store.listening, frozenset(names)))


class ListenSource:
    """
    A `WakeSource` on a connection that listens.

    It sends itself a nonce, since a pooler between it and the server may take LISTEN and pass no notification on.
    psycopg closes no connection of another process when it is collected.
    """

    def __init__(self, store: Store, database: Database | None, queues: Collection[str]) -> None:
        self._store = store
        self._database = database  # None = LISTEN works nowhere
        self._queues = queues
        self._driver: Driver | None = None  # listens, and runs nothing else
        self._socket: Ownership | None = None
        self._nonce = ""
        self._nonce_until = 0.0  # when the nonce must have been received or, without one, when the next is sent
        self._nonce_came = False
        self._poll_until = 0.0
        self._look_again = math.inf

    def look(self, now: float) -> WakeReason:
        """See `WakeSource.look`."""
        driver = self._driver
        if driver is None:
            if self._database is None or now < self._poll_until:
                return WakeReason.NONE
            self._listen(self._database)
            self._send_nonce(now)
            return WakeReason.ANY  # earlier notifications were not received
        is_notified = False
        for payload in translating(lambda: _received(driver)):
            if payload == self._nonce:
                self._nonce, self._nonce_until, self._nonce_came = "", now + _NONCE_EVERY, True
            is_notified = is_notified or payload in self._queues
        if is_notified:
            # Work that is committed within HUSH of a notification is not notified: see `notifier`.
            self._look_again = now + HUSH
        elif now >= self._look_again:
            self._look_again, is_notified = math.inf, True
        if now >= self._nonce_until:
            if not self._nonce:
                self._send_nonce(now)
            else:
                self._give_up(now)
        return WakeReason.ANY if is_notified else WakeReason.NONE

    def next_look(self, now: float) -> tuple[float, Sequence[int]]:
        """See `WakeSource.next_look`."""
        if self._driver is not None:
            return min(self._look_again, self._nonce_until) - now, (self._driver.pgconn.socket,)
        return min(self._look_again, math.inf if self._database is None else self._poll_until) - now, ()

    def close(self) -> None:
        """See `WakeSource.close`."""
        driver, self._driver = self._driver, None
        if driver is None:
            return
        if self._socket is not None and not self._socket.is_mine() and not driver.closed:
            _abandoned.append(driver)
            return
        with contextlib.suppress(Exception):
            driver.close()

    def _listen(self, database: Database) -> None:
        self._driver = driver = database.detached()
        self._socket = Ownership(driver.pgconn.socket)
        listen = sql.SQL("LISTEN {}").format(sql.Identifier(self._store.channel))
        try:
            translating(lambda: driver.execute(listen, prepare=False))
        except BaseException:
            self.close()
            raise

    def _send_nonce(self, now: float) -> None:
        self._nonce, self._nonce_until = f"{_NONCE}{secrets.token_hex(8)}", now + _NONCE_WITHIN
        self._store.notifier.send([self._nonce])

    def _give_up(self, now: float) -> None:
        self.close()
        if self._nonce_came:  # this connection has died: the next look makes another
            self._nonce_came = False
            return
        self._poll_until = now + _POLL_FOR
        _log.warning("LISTEN receives nothing, as behind pgbouncer: workers poll; give a direct listen_url")


def _received(driver: Driver) -> list[str]:
    """Return the payloads of the notifications that have come."""
    driver.pgconn.consume_input()
    payloads = []
    while (notification := driver.pgconn.notifies()) is not None:
        payloads.append(notification.extra.decode(errors="replace"))
    return payloads
