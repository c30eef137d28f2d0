"""Which queues of a prefix have changed their layouts, in one read for all of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import cast

from scheduler.errors import BackendError
from scheduler_backends.redis.calls import Call, Calls
from scheduler_backends.redis.client.router import Command
from scheduler_backends.redis.keys import Keys
from scheduler_backends.redis.scripts import CHANGE

SILENCE = 5.0  # seconds after a failure for which a worker goes on with the layouts that it knows

_Entry = tuple[bytes, float]  # a queue and the number of its last change


class Changes:
    """
    The sorted set `changes`: queue → number of its last change, the highest of all so far plus one.

    A queue is numbered after its layout was written, and again before any gate is opened. So a job that entered a
    version did so after the number by which a worker learns of that version, whoever died in between.
    """

    def __init__(self, calls: Calls, keys: Keys) -> None:
        self._calls = calls
        self._key = keys.shared.key("changes")
        self._shared = keys.shared
        self._silent_until = 0.0  # by time.monotonic()
        self._last: _Entry | None = None  # up to which all layouts known here are up to date; None = nothing is known

    @property
    def are_known(self) -> bool:
        """Whether layouts that were read since can be told from changed ones."""
        return self._last is not None

    def number(self, queue: str) -> None:
        """Give *queue* the next number. Raises the library's errors."""
        self._calls.all([Call(CHANGE, self._shared, (queue.encode(),))])

    def start(self) -> bool:
        """Learn of changes from now on, if the server answers. Layouts are to be read after this."""
        if time.monotonic() < self._silent_until:
            return False
        (answer,) = self._calls.run((), [Command(self._key, (b"ZRANGE", self._key, 0, 0, b"REV", b"WITHSCORES"))])
        if isinstance(answer, BackendError):
            self.failed()
            return False
        entries = _entries(answer)
        self._last = entries[0] if entries else (b"", 0.0)
        return True

    def failed(self) -> None:
        """The server does not answer: in a cluster, the others are not to wait for it in every call."""
        self._silent_until = time.monotonic() + SILENCE

    def questions(self) -> list[Command]:
        """The command whose answer `since` reads, if it is to be asked now."""
        if self._last is None or time.monotonic() < self._silent_until:
            return []
        return [Command(self._key, (b"ZRANGEBYSCORE", self._key, b"%.0f" % self._last[1], b"+inf", b"WITHSCORES"))]

    def since(self, answer: object) -> tuple[set[str], _Entry] | None:
        """
        The queues that have changed, and what to `note` once their layouts were read; None = any may have.

        The last change known is among the answers, unless the store has lost it.
        """
        last = self._last
        entries = _entries(answer)
        if last is None or (not entries and last[1]):
            return None
        changed = {name.decode(errors="replace") for name, number in entries if (name, number) != last and name}
        return changed, entries[-1] if entries else last

    def note(self, last: _Entry) -> None:
        """All layouts known here are as new as this change."""
        self._last = last


def _entries(answer: object) -> list[_Entry]:
    flat = cast("Sequence[bytes] | Sequence[tuple[bytes, float]]", answer)
    if flat and not isinstance(flat[0], bytes):  # RESP3 has pairs
        return [(name, float(score)) for name, score in cast("Sequence[tuple[bytes, float]]", flat)]
    words = cast("Sequence[bytes]", flat)
    return [(name, float(score)) for name, score in zip(words[::2], words[1::2], strict=True)]
