"""Where jobs are kept during a run, and how that place is hurt."""

from __future__ import annotations

import os
import random
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from contextlib import ExitStack
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from chaos.jobs import QUEUES
from chaos.plan import Fault
from scheduler.abilities import TopologyAdmin
from scheduler.errors import BackendError, TopologyError
from scheduler.plugins import backend_from_url
from servers import flavours
from servers.flavours import Flavour
from servers.proxy import Proxy
from servers.server import Server

_RETAINED = "retain_succeeded=864000"
PROCESS_FAULTS = ("kill crew", "pause crew", "stop crew")
PROXY_FAULTS = ("cut", "black hole", "swallow", "delay", "refuse")
SERVER_FAULTS = ("kill server", "freeze server")


class Arena(ABC):
    """A place for jobs. `url` is what producers and workers are given, `quiet_url` is the same place without faults."""

    url: str
    quiet_url: str
    kinds: tuple[str, ...]

    def __init__(self) -> None:
        self._stack = ExitStack()

    @abstractmethod
    def begin(self, fault: Fault) -> None:
        """Do a fault that is this place's; returns at once."""

    @abstractmethod
    def tick(self) -> None:
        """Called often, on the main thread: what has to wait is done here."""

    @abstractmethod
    def heal(self) -> None:
        """Undo whatever a fault has done."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


class FileArena(Arena):
    """An SQLite file, which cannot be hurt: its processes can."""

    def __init__(self, path: Path | None) -> None:
        super().__init__()
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        self.url = self.quiet_url = f"sqlite:///{path or folder / 'chaos.db'}?{_RETAINED}"
        self.kinds = PROCESS_FAULTS

    def begin(self, fault: Fault) -> None:
        """There are none."""
        raise ValueError(fault.kind)

    def tick(self) -> None:
        """Nothing waits."""

    def heal(self) -> None:
        """Nothing was done."""


class ServerArena(Arena):
    """A server behind a proxy of faults; killed and frozen only where this run has started it."""

    def __init__(self, url: str, server: Server | None, options: str, seed: int) -> None:
        super().__init__()
        self._server = server
        if server is not None:
            self._stack.enter_context(server)
        self._proxy = self._stack.enter_context(Proxy(server.url if server else url))
        separator = "&" if urlsplit(url).query else "?"
        tail = f"{separator}{_RETAINED}&{options}"
        self.quiet_url = (server.url if server else url) + tail
        self.url = self._proxy.url + tail
        self._backend = backend_from_url(self.quiet_url)
        self._stack.callback(self._backend.close)
        self._chance = random.Random(seed)
        self._up_at: float | None = None  # when a killed server starts again, by time.monotonic()
        self.kinds = (*PROCESS_FAULTS, "jump clock", *PROXY_FAULTS)
        if server is not None:
            self.kinds += SERVER_FAULTS
        if isinstance(self._backend, TopologyAdmin):
            self.kinds += ("repartition", "complete version")

    def begin(self, fault: Fault) -> None:
        """A server is killed on this, the main thread; the rest is done on a thread of its own, which ends with it."""
        if fault.kind == "kill server" and self._server is not None:
            self._server.kill()
            self._up_at = time.monotonic() + fault.seconds
            return
        actions = {
            "cut": self._proxy.cut,
            "black hole": lambda: self._for(fault.seconds, self._proxy.black_hole),
            "refuse": lambda: self._for(fault.seconds, self._proxy.refuse),
            "delay": lambda: self._for(fault.seconds, lambda: self._proxy.delay(0.05)),
            "swallow": lambda: [self._proxy.swallow_reply() for _ in range(3)],
            "freeze server": lambda: self._frozen(fault.seconds),
            "repartition": self._repartition,
            "complete version": self._complete,
        }
        threading.Thread(target=actions[fault.kind], name=f"chaos-{fault.kind}", daemon=True).start()

    def _for(self, seconds: float, hurt: object) -> None:
        assert callable(hurt)
        hurt()
        threading.Event().wait(seconds)
        self._proxy.heal()

    def tick(self) -> None:
        """Start a killed server again: on the main thread, since a server dies with the thread that started it."""
        if self._server is not None and self._up_at is not None and time.monotonic() >= self._up_at:
            self._up_at = None
            self._server.start()

    def _frozen(self, seconds: float) -> None:
        assert self._server is not None
        if self._up_at is None:  # one that is down cannot be frozen
            self._server.freeze()
            threading.Event().wait(seconds)
            self._server.thaw()

    def _repartition(self) -> None:
        admin = self._backend
        assert isinstance(admin, TopologyAdmin)
        queue = self._chance.choice(QUEUES)
        try:
            highest = max(version.version for version in admin.topology(queue).versions)
            admin.promote_queue_version(queue, highest + 1, self._chance.randint(1, 16))
        except BackendError:
            return  # the server is away: another fault's doing

    def _complete(self) -> None:
        admin = self._backend
        assert isinstance(admin, TopologyAdmin)
        queue = self._chance.choice(QUEUES)
        try:
            for version in admin.topology(queue).draining:
                admin.complete_draining_version(queue, version.version, finished="move")
        except TopologyError:
            return  # refused with counts: live jobs are left, which is what it is for
        except BackendError:
            return

    def heal(self) -> None:
        """The proxy passes everything, the server is up."""
        self._proxy.heal()
        if self._server is not None:
            self._server.thaw()
            self._up_at = time.monotonic() if self._up_at is not None else None
            self.tick()


def arena_for(backend: str, seed: int) -> Arena:
    """sqlite, redis and postgres: a place of this run's own. A URL: that place, which is hurt only from outside."""
    name = f"chaos{os.getpid()}x{seed}"
    scheme = backend.partition(":")[0]
    if scheme == "sqlite":
        path = backend.partition(":///")[2]
        return FileArena(Path(path) if path else None)
    if scheme in ("redis", "valkey"):
        own = None if "://" in backend else _own(flavours.first(flavours.redis()), persistence="always")
        return ServerArena(backend, own, f"prefix={name}&partitions=4&timeout=1", seed)
    if scheme in ("postgres", "postgresql", "postgresql+psycopg"):
        own = None if "://" in backend else _own(flavours.first(flavours.postgres()))
        return ServerArena(backend, own, f"migrate=true&prefix={name}_&timeout=1", seed)
    raise SystemExit(f"chaos: no arena for {backend!r}; known: memory, sqlite, redis, postgres, or a URL of these")


def _own(found: object, **options: object) -> Server:
    if not isinstance(found, Flavour):
        raise SystemExit(f"chaos: no server can be had: {found}")
    server = found.build(**options)
    assert isinstance(server, Server)
    return server
