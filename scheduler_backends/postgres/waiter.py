"""The ability Wakeups: waiters that are notified through LISTEN and NOTIFY."""

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
from scheduler_backends.postgres.notifier import INTERVAL
from scheduler_backends.postgres.store import Store

# Seconds.
_NONCE_WITHIN: Final = 1.0  # a listener must receive its own nonce within this time
_NONCE_EVERY: Final = 60.0  # between two nonces, because a firewall may have dropped the connection
_POLL_FOR: Final = 60.0  # until LISTEN is tried again after it received nothing

_NONCE: Final = "\1"  # begins every nonce, and no queue's name contains it

# Connections whose descriptor other code has closed. Kept for ever: libpq would close its number, now perhaps reused.
_abandoned: list[object] = []

_log = logging.getLogger("scheduler.postgres")


class WaiterHooks:
    """The method of the ability Wakeups. If LISTEN does not work, workers poll."""

    _store: Store

    def waiter(self, queues: Sequence[str]) -> Waiter:
        """See `Wakeups.waiter`. Each waiter has its own connection."""
        names, store = check_queues(queues), self._store
        if store.listening is None:
            _log.warning("pgbouncer does not forward notifications: workers poll; set listen_url to the server itself")
        return DescriptorWaiter(store.waiters, names, lambda _: ListenSource(store, store.listening, frozenset(names)))


class ListenSource:
    """
    `WakeSource` on a connection that listens.

    It sends a nonce to itself, because a pooler in front of the server may accept LISTEN without forwarding
    notifications. A forked child may collect its parent's source: psycopg does not close another process's connection.
    """

    def __init__(self, store: Store, database: Database | None, queues: Collection[str]) -> None:
        self._store = store
        self._database = database  # None = LISTEN does not work
        self._queues = queues
        self._driver: Driver | None = None  # only listens
        self._socket: Ownership | None = None
        self._nonce = ""
        self._nonce_until = 0.0  # the deadline of the nonce; without a nonce, when the next is sent
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
            return WakeReason.ANY  # notifications before this were not received
        is_notified = False
        for payload in translating(lambda: _received(driver)):
            if payload == self._nonce:
                self._nonce, self._nonce_until, self._nonce_came = "", now + _NONCE_EVERY, True
            is_notified = is_notified or payload in self._queues
        if is_notified:
            # Work that is committed within INTERVAL after a notification is not notified: see `notifier`.
            self._look_again = now + INTERVAL
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
        if self._nonce_came:  # the connection worked before and has died: the next look opens another
            self._nonce_came = False
            return
        self._poll_until = now + _POLL_FOR
        _log.warning("LISTEN receives nothing, as behind pgbouncer: workers poll; set listen_url to the server itself")


def _received(driver: Driver) -> list[str]:
    """Return the payloads of the notifications that have arrived, without waiting."""
    driver.pgconn.consume_input()
    payloads = []
    while (notification := driver.pgconn.notifies()) is not None:
        payloads.append(notification.extra.decode(errors="replace"))
    return payloads
