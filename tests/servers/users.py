"""
As whom a server runs.

PostgreSQL and pgbouncer refuse to run as root, so root starts them as `nobody`, who must be able to reach the programs
and the data.
"""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import stat
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple


class User(NamedTuple):
    """An account of this machine."""

    uid: int
    gid: int


def unprivileged() -> User | None:
    """`nobody` when this process is root's, else None: the present user will do."""
    if os.geteuid() != 0:
        return None
    entry = pwd.getpwnam("nobody")
    return User(entry.pw_uid, entry.pw_gid)


def scratch_directory(prefix: str, user: User | None) -> Path:
    """A new directory for a server's files that *user* owns and can reach."""
    for parent in (Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")):  # noqa: S108 - mkdtemp makes it safe
        if parent.is_dir() and (user is None or _all_may_enter(parent)):
            break
    path = Path(tempfile.mkdtemp(prefix=f"{prefix}-", dir=parent))
    if user is not None:
        os.chown(path, user.uid, user.gid)
    return path


@cache
def reachable(root: Path, programs: Path, user: User | None, *libraries: Path) -> Path:
    """
    The folder *programs*, which is below *root*, or that of a copy of *root* where *user* cannot reach the original.

    libraries: folders beside *root* from which the programs load, copied as well where they exist. tox's folder, which
    has mode 0700, is such a place, or a virtual environment below a home directory of that mode. The copy lasts as long
    as this process.
    """
    if user is None or (_all_may_enter(programs) and _all_may_read(programs / "postgres")):
        return programs
    scratch = scratch_directory("programs", user)
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    for folder in (root, *filter(Path.exists, libraries)):
        shutil.copytree(folder, scratch / folder.name, symlinks=True)
    for path in scratch.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & stat.S_IXUSR else 0o644)
    return scratch / programs.relative_to(root.parent)


def _all_may_enter(folder: Path) -> bool:
    return all(place.stat().st_mode & stat.S_IXOTH for place in (folder.resolve(), *folder.resolve().parents))


def _all_may_read(file: Path) -> bool:
    return not file.exists() or bool(file.stat().st_mode & stat.S_IROTH)
