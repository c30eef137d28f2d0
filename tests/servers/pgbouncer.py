"""A pgbouncer before a PostgreSQL server."""

from __future__ import annotations

from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

from servers import databases
from servers.local import LocalServer
from servers.ports import HOST
from servers.users import unprivileged


class PgBouncer(LocalServer):
    """
    Pools connections to every database of the server at *server_url*, by default for a transaction each.

    pool_size: server connections per database.
    """

    name = "pgbouncer"

    def __init__(
        self,
        program: Path,
        server_url: str,
        *,
        pool_mode: Literal["session", "transaction", "statement"] = "transaction",
        pool_size: int = 20,
    ) -> None:
        super().__init__(unprivileged())
        self._program = program
        self._server_url = server_url
        self._config_file = self.directory / "pgbouncer.ini"
        server = urlsplit(server_url)
        password = f" password={server.password}" if server.password else ""
        self._config_file.write_text(
            f"""[databases]
* = host={server.hostname} port={server.port} user={server.username}{password}
[pgbouncer]
listen_addr = {HOST}
listen_port = {self.port}
unix_socket_dir =
auth_type = any
pool_mode = {pool_mode}
default_pool_size = {pool_size}
max_client_conn = 500
server_login_retry = 0.1
"""
        )
        self._config_file.chmod(0o644)

    @property
    def url(self) -> str:
        """The server's URL, through the pool."""
        return self.through(self._server_url)

    def through(self, url: str) -> str:
        """The URL of a database of the same server, through the pool."""
        parts = urlsplit(url)
        return urlunsplit(parts._replace(netloc=f"{parts.username}@{HOST}:{self.port}"))

    def _command(self) -> list[str]:
        return [str(self._program), str(self._config_file)]

    def _answers(self) -> bool:
        return databases.answers(self.url)
