"""Folders for servers' files, which go away even when the process that made them was killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

from servers.users import User, all_may_enter

_PREFIX = "scheduler-test-"
_YOUNG = 60.0  # seconds: a folder of this age may not be locked yet by whoever has made it


class Scratch:
    """
    A new folder that *user* owns and can reach, for as long as this process lives or until `remove`.

    Its maker holds a lock on it, which the kernel lets go when the maker dies, however that comes about. Whoever makes
    the next one deletes those that nobody holds any more.
    """

    def __init__(self, name: str, user: User | None) -> None:
        parent = _parent(user)
        _sweep(parent)
        self.path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{name}-", dir=parent))
        self._lock = os.open(self.path, os.O_RDONLY)
        fcntl.flock(self._lock, fcntl.LOCK_SH)
        if user is not None:
            os.chown(self.path, user.uid, user.gid)

    def remove(self) -> None:
        """Delete it with all that is in it. May be called twice."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _parent(user: User | None) -> Path:
    places = (Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp"))  # noqa: S108 - mkdtemp makes it safe
    return next(place for place in places if place.is_dir() and (user is None or all_may_enter(place)))


@cache  # once a process is enough
def _sweep(parent: Path) -> None:
    for path in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # another user's, held by its maker, or gone meanwhile
            if time.time() - path.stat().st_mtime < _YOUNG:
                continue
            lock = os.open(path, os.O_RDONLY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)
