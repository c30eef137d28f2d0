"""Which lease tokens may have been used before, so that a repeat is known for one."""

from __future__ import annotations

import os
import threading

from scheduler.identity import is_own_token

_COUNTER = 14  # the last so many digits of a token count the tokens that its process has made

_lock = threading.Lock()  # guards the two below; made anew in a forked child, since a thread of the parent may hold it
_process = ""  # what this process's tokens begin with
_highest = -1


def is_first_use(token: str) -> bool:
    """
    Whether no lease call can have been made with *token* before; from now on it counts as used.

    False costs a call one look at all partitions. It is the answer for every token that another process has made, and
    for one of this process that is used after a later one.
    """
    global _process, _highest  # of the process, since a call may be repeated by another backend object
    if not is_own_token(token):
        return False
    process, count = token[:-_COUNTER], int(token[-_COUNTER:], 16)
    with _lock:
        if process == _process and count <= _highest:
            return False
        _process, _highest = process, count
        return True


def _after_fork_in_child() -> None:
    global _lock  # noqa: PLW0603 - one a process
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
