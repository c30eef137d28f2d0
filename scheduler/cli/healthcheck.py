"""
Request of a worker's health from its port, for probes that run a command.

It uses a plain socket, because the command is started every few seconds and an HTTP library takes long to import.
"""

from __future__ import annotations

import socket
import time

_LONGEST = 64 * 1024  # bytes of a response
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - addresses to listen on, not to connect to


def ask(host: str, port: int, path: str, timeout: float) -> tuple[bool, str]:
    """Return whether the response was 200, and a line to print. Never raises. Takes at most *timeout* seconds."""
    host = _EVERYWHERE.get(host, host)
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}{path}"
    try:
        status, body = _fetch(host, port, path, time.monotonic() + timeout)
    except TimeoutError:
        return False, f"{url}: no response within {timeout:g} s"
    except (OSError, ValueError) as error:
        return False, f"{url}: {error}"
    return status == "200", f"{url}: {status} {body}"


def _fetch(host: str, port: int, path: str, end: float) -> tuple[str, str]:
    with socket.create_connection((host, port), _left(end)) as connection:
        connection.sendall(f"GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
        response = b""
        while len(response) < _LONGEST:
            connection.settimeout(_left(end))
            part = connection.recv(_LONGEST)
            if not part:
                break
            response += part
    head, _, body = response.partition(b"\r\n\r\n")
    words = head.partition(b"\r\n")[0].decode("latin-1").split()
    if len(words) < 2 or not words[0].startswith("HTTP/") or not words[1].isdigit():  # noqa: PLR2004 - version and status
        raise ValueError("the response is not HTTP")
    # Another program may have sent it: return only one printable line.
    text = body.decode(errors="replace").strip().partition("\n")[0]
    return words[1], "".join(letter if letter.isprintable() else "?" for letter in text)


def _left(end: float) -> float:
    left = end - time.monotonic()
    if left <= 0.0:
        raise TimeoutError
    return left
