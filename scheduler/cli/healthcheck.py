"""
Asks a worker's health port how it is, for probes that run a command.

By a socket of its own: it is started every few seconds, and HTTP libraries take longer to import than all the rest.
"""

from __future__ import annotations

import socket
import time
from typing import NamedTuple

_HIGHEST_PORT = 65_535
_LONGEST = 64 * 1024  # bytes of an answer
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - what a server listens on, and we ask
_FORBIDDEN = frozenset(map(chr, [*range(33), 127]))


class Address(NamedTuple):
    """Where to ask, and for what: "/live" or "/ready"."""

    host: str
    port: int
    path: str


def parse_url(url: str) -> Address:
    """The address in http://host:port/path; the path is /live unless given. Raises ValueError."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme.lower() != "http":
        raise ValueError("must begin with http://")
    if not _FORBIDDEN.isdisjoint(url) or not url.isascii():
        raise ValueError("must be plain ASCII without spaces")
    place, slash, path = rest.partition("/")
    host, colon, port = place.rpartition(":")
    if not colon or not port.isdigit() or not 0 < int(port) <= _HIGHEST_PORT or not host:
        raise ValueError("must name host and port, such as http://127.0.0.1:8080/ready")
    return Address(host.strip("[]"), int(port), slash + path if path else "/live")


def ask(address: Address, timeout: float) -> tuple[bool, str]:
    """Whether the answer was 200, and a line to show; never raises, and takes *timeout* seconds at most."""
    host = _EVERYWHERE.get(address.host, address.host)
    shown = f"http://{f'[{host}]' if ':' in host else host}:{address.port}{address.path}"
    try:
        status, body = _fetch(host, address.port, address.path, time.monotonic() + timeout)
    except TimeoutError:
        return False, f"{shown}: no answer within {timeout:g} s"
    except (OSError, ValueError) as error:
        return False, f"{shown}: {error}"
    return status == "200", f"{shown}: {status} {body}"


def _fetch(host: str, port: int, path: str, end: float) -> tuple[str, str]:
    with socket.create_connection((host, port), _left(end)) as connection:
        connection.settimeout(_left(end))
        connection.sendall(f"GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
        answer = b""
        while len(answer) < _LONGEST:
            connection.settimeout(_left(end))
            part = connection.recv(_LONGEST)
            if not part:
                break
            answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.partition(b"\r\n")[0].decode("latin-1").split()
    if len(words) < 2 or not words[0].startswith("HTTP/") or not words[1].isdigit():  # noqa: PLR2004 - version and status
        raise ValueError("the answer is not HTTP")
    # What stands there is not ours to trust: one printable line.
    text = body.decode(errors="replace").strip().partition("\n")[0]
    return words[1], "".join(letter if letter.isprintable() else "?" for letter in text)


def _left(end: float) -> float:
    left = end - time.monotonic()
    if left <= 0.0:
        raise TimeoutError
    return left
