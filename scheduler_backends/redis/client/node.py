"""One server: its connections, and a round trip on one of them."""

from __future__ import annotations

import os
import select
import socket
import struct
import sys
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from redis.exceptions import MasterDownError, ReadOnlyError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from scheduler_backends.redis.errors import log

Word = bytes | int

_pack: Callable[[tuple[Word, ...]], bytes] | None
try:
    from hiredis import pack_command as _pack  # type: ignore[assignment]  # its tuple is typed too narrow
except ImportError:  # the driver packs as well, a little slower
    _pack = None

IDLE_CONNECTIONS = 32  # kept by a node; a burst of threads may use more
LATE = "no answer within the timeout of the connection"
LOOK_AFTER = 0.1  # seconds that a connection may be idle before it is looked at whether it is still one


class Connection(Protocol):
    """What is used of a connection of redis-py, which does not type it, or of a driver made like it."""

    pid: int

    def connect(self) -> None: ...
    def disconnect(self) -> None: ...
    def pack_command(self, *words: Word) -> list[bytes]: ...
    def send_packed_command(self, command: list[bytes], check_health: bool = ..., /) -> None: ...  # noqa: FBT001
    def read_response(self) -> object: ...
    def can_read(self, timeout: float = ...) -> bool: ...


class Line:
    """A connection between two uses."""

    __slots__ = ("_poller", "_used_at", "connection")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._poller = select.poll()  # kept: the driver's can_read makes one each time
        self._poller.register(socket_of(connection), select.POLLIN)
        self._used_at = time.monotonic()

    def is_usable(self) -> bool:
        """Whether nothing was received since the last command: an end of file, or an answer to an older one."""
        return time.monotonic() - self._used_at < LOOK_AFTER or not self._poller.poll(0)

    def used(self) -> None:
        """Note the time of the last use."""
        self._used_at = time.monotonic()


class Node:
    """One server: its idle connections, and how to make more of them."""

    def __init__(self, make: Callable[[], Connection]) -> None:
        self._make = make
        self._idle: list[Line] = []  # appends and pops are atomic: no lock, so nothing that a fork could break
        self._pid = os.getpid()
        self._checked = False
        self._closed = False

    def send(self, commands: Sequence[tuple[Word, ...]]) -> Line:
        """Write *commands*; the answers are to be read with `receive`. Raises the driver's errors."""
        line = self._take()
        try:
            line.connection.send_packed_command([_packed(line.connection, commands)], False)
        except BaseException as error:
            line.connection.disconnect()
            self.forget()
            if isinstance(error.__context__, BlockingIOError):
                raise RedisTimeoutError(LATE) from error
            raise
        return line

    def receive(self, line: Line, count: int) -> list[object]:
        """Read *count* answers. From the first lost one on, the error stands in place of each."""
        answers: list[object] = []
        read = line.connection.read_response
        is_left = False
        try:
            while len(answers) < count:
                try:
                    answers.append(read())
                except ReadOnlyError as error:  # a master that was demoted: no connection to it is of use any more
                    return self._lost(line, answers, count, error)
                except ResponseError as error:
                    # Of a server that may not be the master any more: a new connection asks Sentinel, or DNS, again.
                    is_left |= isinstance(error, MasterDownError) or str(error).startswith("NOREPLICAS")
                    answers.append(error)
                except Exception as error:  # noqa: BLE001 - whatever the driver or the system raises
                    return self._lost(line, answers, count, error)
        except BaseException:  # an interrupt: the answers that are left would be taken for those of a later command
            line.connection.disconnect()
            raise
        if is_left:
            line.connection.disconnect()
            self.forget()
        else:
            self._give(line)
        return answers

    def run(self, commands: Sequence[tuple[Word, ...]]) -> list[object]:
        """Write and read."""
        try:
            line = self.send(commands)
        except Exception as error:  # noqa: BLE001 - whatever the driver, the system or a provider of credentials raises
            return [error] * len(commands)
        return self.receive(line, len(commands))

    def forget(self) -> None:
        """Drop the idle connections: what broke one has most likely broken all."""
        while self._idle:
            try:
                self._idle.pop().connection.disconnect()
            except IndexError:  # another thread took the last one
                return

    def close(self) -> None:
        """Drop the idle connections now, and those in use when they come back."""
        self._closed = True
        self.forget()

    def _lost(self, line: Line, answers: list[object], count: int, error: Exception) -> list[object]:
        line.connection.disconnect()
        self.forget()
        if isinstance(error.__context__, BlockingIOError):
            error = RedisTimeoutError(LATE)
        return answers + [error] * (count - len(answers))

    def _take(self) -> Line:
        if self._pid != os.getpid():
            self._idle = []  # the parent's sockets: closed here, which does not shut them down for the parent
            self._pid = os.getpid()
        while self._idle:
            try:
                line = self._idle.pop()
            except IndexError:
                break
            if line.is_usable():
                return line
            line.connection.disconnect()
        connection = self._make()
        try:
            connection.connect()
            if not self._checked:
                self._checked = True
                _warn_of_eviction(connection)
            _wait_in_kernel(socket_of(connection))
            return Line(connection)
        except (
            BaseException
        ):  # the driver closes after its own errors only: not after those of a provider or an interrupt
            connection.disconnect()
            raise

    def _give(self, line: Line) -> None:
        if len(self._idle) < IDLE_CONNECTIONS and not self._closed and line.connection.pid == os.getpid():
            line.used()
            self._idle.append(line)
        else:
            line.connection.disconnect()


def socket_of(connection: Connection) -> socket.socket:
    """Its socket, which the driver keeps to itself; it has no way to wait for that and for something else at once."""
    found = vars(connection).get("_sock")
    if not isinstance(found, socket.socket):
        raise OSError("the connection is gone")
    return found


def _wait_in_kernel(connected: socket.socket) -> None:
    """
    Let the kernel bound the waits of a socket.

    With a time-out of Python's own, each send and each receive is two system calls: a poll comes first. A wait that is
    too long then ends in BlockingIOError, of which the driver makes a ConnectionError and we make a TimeoutError.
    """
    timeout = connected.gettimeout()
    if timeout and type(connected) is socket.socket and sys.platform == "linux":  # TLS has its own way of waiting
        seconds, rest = divmod(timeout, 1.0)
        limit = struct.pack("@ll", int(seconds), int(rest * 1_000_000))
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        connected.setblocking(True)


def _packed(connection: Connection, commands: Sequence[tuple[Word, ...]]) -> bytes:
    if _pack is not None:  # not by way of the driver, which looks at the type of each word first
        return b"".join([_pack(words) for words in commands])
    return b"".join([part for words in commands for part in connection.pack_command(*words)])


def _warn_of_eviction(connection: Connection) -> None:
    """Warn once about a server that evicts keys when its memory is full: it loses jobs."""
    try:
        connection.send_packed_command(connection.pack_command(b"CONFIG", b"GET", b"maxmemory-policy"), False)
        answer = connection.read_response()
    except ResponseError as error:  # many hosted servers forbid CONFIG
        log.warning(
            "the eviction policy of this Redis cannot be read (%s): make sure that maxmemory-policy is noeviction, or "
            "allow +config|get",
            error,
        )
        return
    flat = [*answer.keys(), *answer.values()] if isinstance(answer, dict) else answer  # RESP3 has maps
    policy = flat[-1].decode() if isinstance(flat, list) and flat else "noeviction"
    if policy != "noeviction":
        log.warning(
            "this Redis has maxmemory-policy %s and may evict jobs when its memory is full; set it to noeviction",
            policy,
        )
