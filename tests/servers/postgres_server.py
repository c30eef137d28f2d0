"""One PostgreSQL server."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from servers import databases
from servers.local import LocalServer
from servers.ports import HOST
from servers.users import unprivileged


class PostgresServer(LocalServer):
    """
    A PostgreSQL server with a cluster of its own, superuser `postgres`, no password.

    fsync: False is safe against the death of any process, not of the machine, and much faster; benchmarks say True.
    config: further settings, by name. synchronous_commit stays on: with it off, a killed server forgets commits.
    """

    name = "postgres"
    stop_signal = signal.SIGINT  # "fast"; SIGQUIT is "immediate"
    death_signal = signal.SIGQUIT  # its children are told as well

    def __init__(self, programs: Path, *, fsync: bool = False, config: Mapping[str, str] | None = None) -> None:
        super().__init__(unprivileged())
        self._programs = programs
        self._data = self.directory / "data"
        self._settings = {
            "fsync": "on" if fsync else "off",
            "full_page_writes": "on" if fsync else "off",
            "synchronous_commit": "on",
            "max_connections": "200",
            "shared_buffers": "64MB",
            **(config or {}),
        }

    @property
    def url(self) -> str:
        """`postgresql://…`, database postgres."""
        return self.database_url("postgres")

    def database_url(self, database: str) -> str:
        """The URL of one of its databases."""
        return f"postgresql://postgres@{HOST}:{self.port}/{database}"

    def crash(self) -> None:
        """What `pg_ctl stop -m immediate` does: no checkpoint, the next start recovers from the log."""
        self.stop(signal.SIGQUIT)

    def start(self) -> None:
        """Make the cluster if it is the first start, start, and return when it answers."""
        if not self._data.exists():
            self._make_cluster()
        super().start()

    def _make_cluster(self) -> None:
        options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "-N", "--wal-segsize=1"]
        made = subprocess.run(
            [str(self._programs / "initdb"), "-D", str(self._data), *options],
            cwd=self.directory,
            capture_output=True,
            text=True,
            check=False,
            # PGDATA, PGHOST and the like of the tests' environment are meant for other servers.
            env={name: value for name, value in os.environ.items() if not name.startswith("PG")},
            user=self._user.uid if self._user else None,
            group=self._user.gid if self._user else None,
            extra_groups=[] if self._user else None,
        )
        if made.returncode != 0:
            raise RuntimeError(f"initdb failed:\n{made.stdout[-1000:]}{made.stderr[-1000:]}")

    def _command(self) -> list[str]:
        place = ["-D", str(self._data), "-h", HOST, "-p", str(self.port), "-k", str(self.directory)]
        settings = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        return [str(self._programs / "postgres"), *place, *settings]

    def _answers(self) -> bool:
        return databases.answers(self.url)
