"""Which lease tokens are new, so that a repeated lease call is recognised."""

from __future__ import annotations

import threading

from scheduler.identity import own_number
from scheduler.processes import PerProcess


class _Used:
    """One a process: the tokens of a forked child begin at 0 again."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # guards the number below; re-entrant for finalisers and signal handlers
        self.highest = -1


_used: PerProcess[_Used] = PerProcess()  # not a backend's: a call may be repeated by another backend object


def is_first_use(token: str) -> bool:
    """
    Return whether no lease call can have used *token* before. From now on it counts as used.

    True is certain: tokens of this process are numbered, and none as high was used in it. False may be a new token all
    the same, made by another process or used after a later one; it costs the call one look at all partitions.
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
