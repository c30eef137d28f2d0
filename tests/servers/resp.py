"""One raw Redis command on a connection of its own, whatever a test does to its client library."""

from __future__ import annotations

import socket
from typing import BinaryIO

from servers.ports import HOST

Reply = bytes | int | None | list["Reply"]


class CommandError(Exception):
    """The server answered with an error."""


def command(port: int, *words: str | bytes | int, host: str = HOST, timeout: float = 5.0) -> Reply:
    """Send one command and answer its reply. OSError when the server is away, `CommandError` when it says no."""
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    request = b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
    with socket.create_connection((host, port), timeout) as connection, connection.makefile("rb") as stream:
        connection.sendall(request)
        return _read(stream)


def text(reply: Reply) -> str:
    """A reply that is a string."""
    if not isinstance(reply, bytes):
        raise TypeError(f"expected text, got {reply!r}")
    return reply.decode()


def fields(reply: Reply, separator: str = ":") -> dict[str, str]:
    """The lines of INFO or CLUSTER INFO by name."""
    pairs = (line.partition(separator) for line in text(reply).splitlines())
    return {name: value for name, _, value in pairs if value}


def _read(stream: BinaryIO) -> Reply:
    line = stream.readline()
    if not line.endswith(b"\r\n"):
        raise ConnectionError("the server closed the connection")
    kind, rest = line[:1], line[1:-2]
    if kind == b"+":
        return rest
    if kind == b"-":
        raise CommandError(rest.decode(errors="replace"))
    if kind == b":":
        return int(rest)
    count = int(rest)
    if count < 0:
        return None
    if kind == b"*":
        return [_read(stream) for _ in range(count)]
    return stream.read(count + 2)[:-2]
