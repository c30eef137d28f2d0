"""Detection of repeated lease calls, by the numbers of their tokens."""

from __future__ import annotations

import threading

from scheduler.identity import own_number
from scheduler.processes import PerProcess


class _Used:
    """The highest token number used in this process. A forked child starts again at 0."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # guards `highest`; re-entrant for finalisers and signal handlers
        self.highest = -1


_used: PerProcess[_Used] = PerProcess()  # per process, not per backend: another backend object may repeat a call


def is_first_use(token: str) -> bool:
    """
    Return True if no lease call has used *token* before, and mark it as used.

    True is certain: the tokens of a process are numbered, and no number as high was used. False is also returned for a
    new token that another process made, or that is used after a later one. The lease call then asks all partitions for
    jobs of this token, which costs time but is correct.
    """
    number = own_number(token)
    if number is None:
        return False
    used = _used.get(_Used)
    with used.lock:
        if number <= used.highest:
            return False
        used.highest = number
        return True
