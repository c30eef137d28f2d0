"""
Telling waiters of other processes: each binds a Unix datagram socket beside the file, and who stores work rings all.

A datagram is JSON: ``{"rung": [queue, …], "ready": true}`` after a commit, true where nothing is new but ready jobs; or
``{"watch": [[queue, id], …]}`` from a transaction of a user's own, whose commit nobody here sees: waiters then watch
the file's change counter for a while. Datagrams are hints alone. Who can write into the folder can do no worse than
wake a worker.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final

from scheduler.backend import News

Watched = tuple[str, str]  # queue and id of a job that a transaction under way has stored

_LONGEST: Final = 70  # bytes of a folder's path: a socket's address takes some 100, the name included
_MOST_QUEUES: Final = 100
_FULL: Final = 8  # datagrams found waiting after which some may have been refused: Linux holds back at 10
_SIZE: Final = 65_536


class Doorbell:
    """A waiter's own socket, bound until closed. Raises `OSError` where none can be had."""

    def __init__(self, folder: str) -> None:
        self.name = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._path = Path(folder) / self.name
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self.socket.setblocking(False)
            self._path.parent.mkdir(exist_ok=True)
            with _short(folder) as place:
                self.socket.bind(f"{place}/{self.name}")
        except BaseException:
            self.socket.close()
            raise

    def answer(self, queues: Collection[str]) -> tuple[News, list[Watched]]:
        """Take what has come in: the news of *queues*, and which of their jobs are to be watched for."""
        news, number = News.NONE, 0
        watched: list[Watched] = []
        while True:
            try:
                datagram = self.socket.recv(_SIZE)
            except BlockingIOError:
                return News.ANY if number >= _FULL else news, watched
            number += 1
            try:
                said = json.loads(datagram)
                rung, watch = said.get("rung", ()), said.get("watch", ())
                if rung is None or any(queue in queues for queue in rung):
                    news |= News.READY if said.get("ready") is True else News.ANY
                watched += [(queue, id) for queue, id in watch if queue in queues]
            except (ValueError, TypeError, AttributeError):  # somebody else's
                news = News.ANY

    def close(self) -> None:
        """Unbind. The folder goes with the last of them."""
        self.socket.close()
        if self.name.startswith(f"{os.getpid()}-"):  # else a forked child, which must leave the parent's in place
            with contextlib.suppress(OSError):
                self._path.unlink()
                self._path.parent.rmdir()


class Ringer:
    """Rings the doorbells of other processes. Safe in any thread; never raises, never waits."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._socket: socket.socket | None = None  # made when there is somebody to ring

    def ring(self, queues: Collection[str], news: News, but: Collection[str]) -> None:
        """There is *news* of *queues*. *but*: names of bells that were told otherwise."""
        rung = list(queues) if len(queues) <= _MOST_QUEUES else None
        self._send({"rung": rung, "ready": news is News.READY}, but)

    def watch(self, jobs: Sequence[Watched], but: Collection[str]) -> None:
        """A transaction that is not ours has stored *jobs*, and may commit."""
        self._send({"watch": jobs[:_MOST_QUEUES]}, but)

    def close(self) -> None:
        """Let go of the socket."""
        if self._socket is not None:
            self._socket.close()

    def _send(self, said: object, but: Collection[str]) -> None:
        try:
            names = os.listdir(self._folder)  # noqa: PTH208 - a third of iterdir's time, and one call per commit
        except OSError:  # nobody has ever waited
            return
        others = [name for name in names if name not in but]
        if not others:
            return
        datagram = json.dumps(said).encode()
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.setblocking(False)
        with contextlib.suppress(OSError), _short(self._folder) as place:  # or the folder has just gone
            for name in others:
                try:
                    self._socket.sendto(datagram, f"{place}/{name}")
                except ConnectionRefusedError:  # its process was killed
                    with contextlib.suppress(OSError):
                        Path(self._folder, name).unlink()
                except OSError:  # full: it has news enough; or it has just gone
                    pass


@contextlib.contextmanager
def _short(folder: str) -> Iterator[str]:
    """A path to *folder* that is short enough for a socket's address; Linux has one for every open folder."""
    if len(os.fsencode(folder)) <= _LONGEST:
        yield folder
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
