"""Programs where the user that runs them can reach them."""

from __future__ import annotations

import atexit
import shutil
import stat
from functools import cache
from pathlib import Path

from servers.scratch import Scratch
from servers.users import User, all_may_enter, all_may_read


@cache
def reachable(root: Path, programs: Path, user: User | None, *libraries: Path) -> Path:
    """
    The folder *programs*, which is below *root*, or that of a copy of *root* where *user* cannot reach the original.

    libraries: folders beside *root* from which the programs load, copied as well where they exist. tox's folder, which
    has mode 0700, is such a place, or a virtual environment below a home directory of that mode. The copy lasts as long
    as this process.
    """
    if user is None or (all_may_enter(programs) and all_may_read(programs / "postgres")):
        return programs
    scratch = Scratch("programs", user)
    atexit.register(scratch.remove)
    for folder in (root, *filter(Path.exists, libraries)):
        shutil.copytree(folder, scratch.path / folder.name, symlinks=True)
    for path in scratch.path.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & stat.S_IXUSR else 0o644)
    return scratch.path / programs.relative_to(root.parent)
