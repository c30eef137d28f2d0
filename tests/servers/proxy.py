"""
A TCP proxy of faults between a client and a server.

    with Proxy(server.url) as proxy:
        client = redis.Redis.from_url(proxy.url)
        swallowed = proxy.swallow_reply(matching=b"EVALSHA")
        ...                     # the server runs it, the client's connection breaks
        swallowed.wait(5)
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self
from urllib.parse import urlsplit, urlunsplit

from servers.ports import HOST, Port, bound_socket
from servers.proxy_link import Fault, Link


class Proxy:
    """
    Passes bytes to the server of *url* and back, until told otherwise. All methods may be called from any thread.

    Threads: one that accepts, which ends in `close` or `refuse`, and two a connection, which end with it.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._target = (parts.hostname or HOST, parts.port or {"redis": 6379, "rediss": 6379}.get(parts.scheme, 5432))
        self._port = Port()
        user, at, _ = parts.netloc.rpartition("@")
        self.url = urlunsplit(parts._replace(netloc=f"{user}{at}{HOST}:{self.port}"))
        self._lock = threading.Lock()  # guards _links, _faults and _holding
        self._links: set[Link] = set()
        self._faults: list[Fault] = []
        self._holding = False
        self.answer_delay = 0.0  # seconds; read by links
        self._listener: socket.socket | None = None
        self._acceptor: threading.Thread | None = None

    @property
    def port(self) -> int:
        """Where clients find it, the same for its whole life."""
        return self._port.number

    @property
    def connections(self) -> int:
        """How many are open now."""
        return len(self._open_links())

    def cut(self) -> None:
        """Break every connection that is open now; new ones are served."""
        for link in self._open_links():
            link.cut()

    def refuse(self) -> None:
        """Break every connection, and refuse new ones until `accept`."""
        listener, self._listener = self._listener, None
        if listener is not None and self._acceptor is not None:
            with suppress(OSError):  # the accept under way, which a close alone would not wake
                socket.create_connection((HOST, self.port), timeout=1).close()
            self._acceptor.join()
            listener.close()
        self.cut()

    def accept(self) -> None:
        """Take new connections again. Harmless when it does."""
        if self._listener is None:
            self._listener = bound_socket(self.port)
            self._listener.listen(128)
            self._acceptor = threading.Thread(
                target=self._serve, args=(self._listener,), name="proxy-accept", daemon=True
            )
            self._acceptor.start()

    def black_hole(self) -> None:
        """Hold back every byte both ways until `heal`: connections stay open, new ones open, nothing arrives."""
        with self._lock:
            self._holding = True
        for link in self._open_links():
            link.hold()

    def delay(self, seconds: float) -> None:
        """Deliver each piece of an answer *seconds* later, until `heal`."""
        self.answer_delay = seconds

    def heal(self) -> None:
        """Pass everything again: what was held back arrives now, no fault waits any more, connections are taken."""
        with self._lock:
            self._faults.clear()
            self._holding = False
        self.answer_delay = 0.0
        for link in self._open_links():
            link.let_go()
        self.accept()

    def swallow_reply(self, *, matching: bytes = b"", complete: Callable[[bytes], bool] = bool) -> threading.Event:
        """
        Let the next request that holds *matching* reach the server, drop its answer and break that connection, once.

        complete: whether the answer so far is the whole of it, so that the server has surely finished; by default any
        first bytes are. `postgres_is_done` is the one for PostgreSQL. The event answered is set when it has happened.
        """
        return self._arm(Fault(matching=matching, complete=complete))

    def cut_after(self, count: int, *, matching: bytes = b"") -> threading.Event:
        """Break the connection after *count* bytes of the next request that holds *matching* went through, once."""
        return self._arm(Fault(matching=matching, request_bytes=count))

    def cut_answer_after(
        self, count: int, *, matching: bytes = b"", complete: Callable[[bytes], bool] = bool
    ) -> threading.Event:
        """As `swallow_reply`, but the first *count* bytes of the answer go through."""
        return self._arm(Fault(matching=matching, complete=complete, answer_bytes=count))

    def _arm(self, fault: Fault) -> threading.Event:
        with self._lock:
            self._faults.append(fault)
        return fault.happened

    def take_fault(self, request: bytes) -> Fault | None:
        """The first fault that waits for this *request*, which is then its own. For links."""
        with self._lock:
            for fault in self._faults:
                if fault.matching in request:
                    self._faults.remove(fault)
                    return fault
        return None

    def forget(self, link: Link) -> None:
        """A connection has ended. For links."""
        with self._lock:
            self._links.discard(link)

    def _open_links(self) -> list[Link]:
        with self._lock:
            return list(self._links)

    def close(self) -> None:
        """Break everything and give the port back. May be called twice."""
        self.refuse()
        self._port.release()

    def _serve(self, listener: socket.socket) -> None:
        while True:
            client, _ = listener.accept()
            if self._listener is not listener:
                client.close()
                return
            try:
                server = socket.create_connection(self._target, timeout=5)
            except OSError:  # the server is down, and so its client is cut off
                client.close()
                continue
            server.settimeout(None)
            link = Link(self, client, server)
            with self._lock:
                self._links.add(link)
                if self._holding:
                    link.hold()
            link.start()

    def __enter__(self) -> Self:
        self.accept()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def postgres_is_done(answer: bytes) -> bool:
    """Whether *answer* ends with ReadyForQuery: the statement is finished, and committed unless in a transaction."""
    return answer[-6:-1] == b"Z\x00\x00\x00\x05"
