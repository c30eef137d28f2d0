"""Which lease tokens may have been used before, so that a repeat is known for one."""

from __future__ import annotations

import threading

from scheduler.identity import own_number
from scheduler.processes import PerProcess


class _Used:
    """One a process: the tokens of a forked child begin at 0 again."""

    def __init__(self) -> None:
        self.lock = threading.Lock()  # guards the number below
        self.highest = -1


_used: PerProcess[_Used] = PerProcess()  # not a backend's: a call may be repeated by another backend object


def is_first_use(token: str) -> bool:
    """
    Whether no lease call can have been made with *token* before; from now on it counts as used.

    False costs a call one look at all partitions. It is the answer for every token that another process has made, and
    for one of this process that is used after a later one.
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
