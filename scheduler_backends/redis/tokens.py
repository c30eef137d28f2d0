"""Which lease tokens may have been used before, so that a repeat is known for one."""

from __future__ import annotations

import os
import threading

from scheduler.identity import own_number

_lock = threading.Lock()  # guards the number below; both are made anew in a forked child, whose tokens begin at 0
_highest = -1


def is_first_use(token: str) -> bool:
    """
    Whether no lease call can have been made with *token* before; from now on it counts as used.

    False costs a call one look at all partitions. It is the answer for every token that another process has made, and
    for one of this process that is used after a later one.
    """
    global _highest  # noqa: PLW0603 - one a process, since a call may be repeated by another backend object
    number = own_number(token)
    if number is None:
        return False
    with _lock:
        if number <= _highest:
            return False
        _highest = number
        return True


def _after_fork_in_child() -> None:
    global _lock, _highest
    _lock, _highest = threading.Lock(), -1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
