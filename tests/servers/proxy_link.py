"""One connection through the proxy: two sockets and the threads that pass bytes between them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

_PIECE = 256 * 1024  # bytes


@dataclass(slots=True, eq=False)
class Fault:
    """
    What befalls the next request that holds `matching`, once.

    request_bytes: the connection breaks after so many bytes of it. None = all of it passes, and the connection breaks
    once its answer is `complete`, of which answer_bytes pass.
    """

    matching: bytes
    complete: Callable[[bytes], bool] = bool
    request_bytes: int | None = None
    answer_bytes: int = 0
    happened: threading.Event = field(default_factory=threading.Event)


class Rules(Protocol):
    """What a link asks its proxy."""

    answer_delay: float

    def take_fault(self, request: bytes) -> Fault | None:
        """The fault that is meant for this request."""
        ...

    def forget(self, link: Link) -> None:
        """The link has ended."""
        ...


class Link:
    """Passes bytes both ways, in two threads which end when either side closes or `cut` is called."""

    def __init__(self, rules: Rules, client: socket.socket, server: socket.socket) -> None:
        self._rules = rules
        self._client = client
        self._server = server
        self._swallowing: Fault | None = None  # set before its request is sent, so before its answer can come
        self._ends = threading.Semaphore(1)
        self._is_cut = threading.Event()
        self._flows = threading.Event()
        self._flows.set()

    def start(self) -> None:
        """Begin to pass bytes."""
        for target in (self._pass_requests, self._pass_answers):
            threading.Thread(target=self._run, args=(target,), name=target.__name__, daemon=True).start()

    def cut(self) -> None:
        """Break the connection on both sides. From any thread."""
        self._is_cut.set()
        self._flows.set()
        for end in (self._client, self._server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)  # wakes a thread in recv, which a close would not

    def hold(self) -> None:
        """Hold back every byte that has not passed yet. From any thread."""
        self._flows.clear()
        if self._is_cut.is_set():  # cut meanwhile: its threads must not wait
            self._flows.set()

    def let_go(self) -> None:
        """Pass what was held back. From any thread."""
        self._flows.set()

    def _run(self, pump: Callable[[], None]) -> None:
        with suppress(OSError):
            pump()
        self.cut()
        # The second thread to come here closes: a descriptor that the other still used could be another file's.
        if not self._ends.acquire(blocking=False):
            self._client.close()
            self._server.close()
            self._rules.forget(self)

    def _pass_requests(self) -> None:
        while request := self._client.recv(_PIECE):
            self._flows.wait()
            if self._is_cut.is_set():
                return
            fault = self._rules.take_fault(request)
            if fault is not None and fault.request_bytes is not None:
                self._server.sendall(request[: fault.request_bytes])
                fault.happened.set()
                return
            self._swallowing = self._swallowing or fault
            self._server.sendall(request)

    def _pass_answers(self) -> None:
        swallowed = b""
        while answer := self._server.recv(_PIECE):
            self._flows.wait()
            if self._is_cut.wait(self._rules.answer_delay):
                return
            if self._swallowing is None:
                self._client.sendall(answer)
                continue
            swallowed += answer
            if self._swallowing.complete(swallowed):
                self._client.sendall(swallowed[: self._swallowing.answer_bytes])
                self.cut()
                self._swallowing.happened.set()
                return
