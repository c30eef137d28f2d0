"""What the first process of a container owes to programs whose parents have ended: their exit status is to be read."""

from __future__ import annotations

import os
from collections.abc import Container

_INIT = 1  # the process that inherits all orphans of a container


def reap_orphans(children: Container[int]) -> None:
    """Read the exit status of all that have ended and are none of *children*; does nothing in any but process 1."""
    if os.getpid() != _INIT:
        return
    try:
        # WNOWAIT: only looked at, since the end of a child of ours is to be read by who started it.
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and ended.si_pid not in children:
            os.waitpid(ended.si_pid, 0)
    except ChildProcessError:  # there are none
        return
