"""The file's change counter: how commits show that nobody rings for."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable
from typing import Final

from scheduler_backends.sqlite.doorbells import Watched
from scheduler_backends.sqlite.file import File

_STEPS: Final = ((0.1, 0.002), (1.0, 0.005), (60.0, 0.02))  # watched for so long: look every so often, in seconds
_POLL: Final = 0.02  # seconds between two looks where no doorbell can be had
_MOST: Final = 1_000


class Watch:
    """
    Looks at the change counter (4 µs) while a user's transaction may commit a job, or always without a doorbell.

    Used by one thread. A job that was rolled back is looked for in vain and forgotten after a minute; one that commits
    later than that is found by the fallback poll.
    """

    def __init__(self, file: File, find: str, *, always: bool) -> None:
        self._file = file
        self._find = find
        self._always = always
        self._since: dict[Watched, float] = {}
        self._connection: sqlite3.Connection | None = None
        self._seen: object = None

    def add(self, jobs: Iterable[Watched]) -> None:
        """Watch for *jobs* from now on."""
        now = time.monotonic()
        for job in jobs:
            if len(self._since) < _MOST:
                self._since.setdefault(job, now)
                self._seen = None  # it may be there already

    def pause(self) -> float | None:
        """Seconds until the next look, None = there is nothing to look for."""
        if self._since:
            age = time.monotonic() - max(self._since.values())
            for limit, step in _STEPS:
                if age < limit:
                    return step
            self._since.clear()
        return _POLL if self._always else None

    def look(self) -> bool:
        """Whether a job that was watched for is there now; without a doorbell, whether anything has changed."""
        if not self._since and not self._always:
            return False
        try:
            if self._connection is None:
                self._connection = self._file.connect()
            (counter,) = self._connection.execute("PRAGMA data_version").fetchone()
            changed, self._seen = counter != self._seen, counter
            if not changed:
                return False
            there = [job for job in self._since if self._connection.execute(self._find, job).fetchone()]
        except sqlite3.Error:  # the worker's own calls will tell
            self.close()
            return False
        for job in there:
            del self._since[job]
        return self._always or bool(there)

    def close(self) -> None:
        """Let go of the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
