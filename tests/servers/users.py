"""
As whom a server runs.

PostgreSQL and pgbouncer refuse to run as root, so root starts them as `nobody`, who must be able to reach the programs
and the data.
"""

from __future__ import annotations

import os
import pwd
import stat
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


def all_may_enter(folder: Path) -> bool:
    """Whether everybody may go to *folder*."""
    return all(place.stat().st_mode & stat.S_IXOTH for place in (folder.resolve(), *folder.resolve().parents))


def all_may_read(file: Path) -> bool:
    """Whether everybody may read *file*, if it is there."""
    return not file.exists() or bool(file.stat().st_mode & stat.S_IROTH)
