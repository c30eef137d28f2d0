"""
Servers in containers, by testcontainers: where a Docker engine answers and has, or can pull, the image.

Its plain container is enough: those made for Redis and PostgreSQL wait by a poll of a second, and wait on for a server
that has ended. The imports stand inside: they cost two seconds, and most machines have no engine.
"""

from __future__ import annotations

import os
import shlex
import socket
import time
from abc import abstractmethod
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from servers import databases, processes, resp
from servers.ports import HOST, Port
from servers.redis_server import Persistence, RedisCommands
from servers.server import Server

if TYPE_CHECKING:
    from docker import DockerClient  # type: ignore[import-untyped]  # docker has no types
    from docker.models.containers import Container  # type: ignore[import-untyped]  # docker has no types
    from testcontainers.core.container import DockerContainer

# Versions that the wheels and Debian do not bring.
REDIS_IMAGE = os.environ.get("SCHEDULER_TEST_REDIS_IMAGE", "redis:8-alpine")
POSTGRES_IMAGE = os.environ.get("SCHEDULER_TEST_POSTGRES_IMAGE", "postgres:17-alpine")


def has_engine() -> bool:
    """Whether a Docker engine is worth asking."""
    return bool(os.environ.get("DOCKER_HOST")) or Path("/var/run/docker.sock").exists()


@cache
def why_not(image: str) -> str | None:
    """Why no container of *image* can be had, None = it can."""
    if not has_engine():
        return "there is no Docker engine"
    try:
        import docker  # noqa: PLC0415 - slow
        from docker.errors import DockerException  # type: ignore[import-untyped]  # noqa: PLC0415
        from testcontainers.core.config import testcontainers_config as settings  # noqa: PLC0415
    except ImportError as error:
        return f"{error.name} is not installed"
    # The reaper is a container too; without it, killed tests would leave theirs behind.
    images = [image] if settings.ryuk_disabled else [settings.ryuk_image, image]
    try:
        engine = docker.from_env()
    except DockerException as error:
        return f"no Docker engine answers: {error}"
    try:
        engine.ping()
        _sweep(engine)
        for needed in images:
            if not engine.images.list(name=needed):
                engine.images.pull(needed)
    except DockerException as error:
        return f"the Docker engine cannot have {' and '.join(images)}: {error}"
    finally:
        engine.close()
    return None


_MAKER = "scheduler.tests.maker"  # a label: which process of which host made the container


def _maker(pid: int) -> str:
    return f"{socket.gethostname()} {pid} {processes.started_at(pid)}"


def _sweep(engine: DockerClient) -> None:
    """Remove containers whose makers were killed: without the reaper nobody else does."""
    for container in engine.containers.list(all=True, filters={"label": _MAKER}):
        host, pid, _ = maker = container.labels[_MAKER].split()
        if host == socket.gethostname() and " ".join(maker) != _maker(int(pid)):
            container.remove(force=True, v=True)


class ContainerServer(Server):
    """A `Server` in a container, at a fixed port of the engine's host."""

    start_timeout = 60.0  # seconds
    stop_signal: ClassVar = "SIGTERM"  # sent by us: an image may name none, or another

    def __init__(self, container: DockerContainer, inner_port: int) -> None:
        self._port = Port()
        self.port = self._port.number
        labels = {_MAKER: _maker(os.getpid())}
        self._container = container.with_bind_ports(inner_port, self.port).with_kwargs(labels=labels)
        self._is_made = False
        self._runs = False
        self.host = HOST  # until it runs; then the engine's

    @abstractmethod
    def _answers(self) -> bool:
        """Return True if it responds to a request now."""

    @property
    def is_running(self) -> bool:
        """Whether it was started, and neither stopped nor killed since."""
        return self._runs

    def start(self) -> None:
        """Start it, or start it again; returns when it answers."""
        if self._is_made:
            self._inner.start()
        else:
            self._port.release()  # the engine may bind it in a way that our reservation would forbid
            self._is_made = True
            self._container.start()
            self.host = self._container.get_container_host_ip()
        self._runs = True
        end = time.monotonic() + self.start_timeout
        while not self._answers():
            self._inner.reload()
            if self._inner.status == "exited" or time.monotonic() > end:
                log = self._inner.logs(tail=20).decode(errors="replace")
                raise RuntimeError(f"{self._inner.image} is {self._inner.status} and does not answer:\n{log}")
            time.sleep(0.02)

    @property
    def _inner(self) -> Container:
        return self._container.get_wrapped_container()

    def stop(self) -> None:
        """Shut it down in order. Harmless when it is down."""
        if self.is_running:
            self.thaw()
            self._inner.kill(self.stop_signal)
            self._inner.wait(timeout=30)
            self._runs = False

    def kill(self) -> None:
        """SIGKILL all its processes. Harmless when it is down."""
        if self.is_running:
            self.thaw()
            self._inner.kill("SIGKILL")
            self._inner.wait()
            self._runs = False

    def freeze(self) -> None:
        """Stop all its processes where they stand."""
        self._inner.pause()

    def thaw(self) -> None:
        """Let them go on. Harmless when nothing is frozen."""
        self._inner.reload()
        if self._inner.status == "paused":
            self._inner.unpause()

    def close(self) -> None:
        """Remove it and its data. May be called twice."""
        if self._is_made:
            self._container.stop()
        self._is_made = self._runs = False


class RedisContainer(RedisCommands, ContainerServer):
    """A Redis in a container, with the options of `RedisServer`."""

    def __init__(self, *, persistence: Persistence = "everysec", config: Mapping[str, str] | None = None) -> None:
        from testcontainers.core.container import DockerContainer  # noqa: PLC0415 - slow

        settings = {
            "save": '""',
            "appendonly": "no" if persistence == "none" else "yes",
            "appendfsync": "everysec" if persistence == "none" else persistence,
            "databases": "64",
            "protected-mode": "no",
            **(config or {}),
        }
        words = [word for name, value in settings.items() for word in (f"--{name}", *shlex.split(value))]
        super().__init__(DockerContainer(REDIS_IMAGE).with_command(["redis-server", *words]), 6379)

    @property
    def url(self) -> str:
        """`redis://…`, database 0."""
        return f"redis://{self.host}:{self.port}/0"

    def _answers(self) -> bool:
        try:
            return self.command("PING") == b"PONG"
        except (OSError, resp.CommandError):
            return False


class PostgresContainer(ContainerServer):
    """A PostgreSQL in a container, with the options of `PostgresServer`."""

    stop_signal = "SIGINT"  # "fast": SIGTERM waits until every client has gone

    def __init__(self, *, fsync: bool = False, config: Mapping[str, str] | None = None) -> None:
        from testcontainers.core.container import DockerContainer  # noqa: PLC0415 - slow

        switch = "on" if fsync else "off"
        settings = {"fsync": switch, "full_page_writes": switch, "max_connections": "200", **(config or {})}
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        container = DockerContainer(POSTGRES_IMAGE).with_env("POSTGRES_PASSWORD", "postgres")
        container = container.with_command(["postgres", *words])
        super().__init__(container, 5432)

    @property
    def url(self) -> str:
        """`postgresql://…`, database postgres."""
        return f"postgresql://postgres:postgres@{self.host}:{self.port}/postgres"

    def crash(self) -> None:
        """What `pg_ctl stop -m immediate` does."""
        self.thaw()
        self._inner.kill("SIGQUIT")
        self._inner.wait()
        self._runs = False

    def _answers(self) -> bool:
        return databases.answers(self.url)
