"""One Redis or Valkey server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from servers import resp
from servers.local import LocalServer
from servers.ports import HOST

Persistence = Literal["none", "everysec", "always"]


class RedisCommands:
    """Raw commands to a server at `host` and `port`."""

    host: str
    port: int

    def command(self, *words: str | bytes | int) -> resp.Reply:
        """One raw command, such as ``command("CONFIG", "SET", "maxmemory", "2mb")``."""
        return resp.command(self.port, *words, host=self.host)

    def info(self, section: str) -> dict[str, str]:
        """A section of INFO, by name."""
        return resp.fields(self.command("INFO", section))


class RedisServer(RedisCommands, LocalServer):
    """
    A Redis or Valkey server with a port and a directory of its own.

    persistence: when the append-only file is synced, or "none" for a server that forgets. config: any further
    settings, by name; several values are separated by spaces. Settings that the server changes with CONFIG REWRITE,
    and a replica's change of master, outlast a restart.
    """

    name = "redis"

    def __init__(
        self, program: Path, *, persistence: Persistence = "everysec", config: Mapping[str, str] | None = None
    ) -> None:
        super().__init__()
        self._program = program
        self._config_file = self.directory / "redis.conf"
        self.socket = self.directory / "redis.sock"
        settings = {
            "bind": HOST,
            "port": str(self.port),
            "unixsocket": str(self.socket),
            "dir": str(self.directory),
            "save": '""',
            "appendonly": "no" if persistence == "none" else "yes",
            "databases": "64",
            "repl-diskless-sync-delay": "0",
            **({} if persistence == "none" else {"appendfsync": persistence}),
            **(config or {}),
        }
        self._config_file.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))

    @property
    def url(self) -> str:
        """`redis://…`, database 0."""
        return f"redis://{HOST}:{self.port}/0"

    @property
    def unix_url(self) -> str:
        """`unix://…`, database 0."""
        return f"unix://{self.socket}?db=0"

    def _command(self) -> list[str]:
        return [str(self._program), str(self._config_file)]

    def _answers(self) -> bool:
        try:
            return self.command("PING") == b"PONG"
        except (OSError, resp.CommandError):  # refused: it still loads its data
            return False
