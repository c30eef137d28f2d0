"""What the exit status of a worker's process says."""

from __future__ import annotations

import logging
import os
import sys
from enum import IntEnum


class Exit(IntEnum):
    """Documented in docs/running-workers.md. A process that a second signal ends at once leaves with 128 + signal."""

    STOPPED = 0  # as asked: by a signal, --burst, --max-jobs or --max-memory
    CRASHED = 1  # a bug of the worker's or the application's
    USAGE = 2  # to be mended: the command line, the configuration, the application's import, the store's schema
    STUCK = 3  # too many handler threads did not return
    ABANDONED = 4  # stopped in time, but jobs were still held: they come back when their leases run out
    STORE = 5  # the store cannot be used: closed, or lacking an ability


def leave(status: int) -> None:
    """
    End the process at once, logs and streams flushed.

    For a process in which threads go on: the interpreter's own exit waits for those that handlers have started.
    """
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):  # None, closed, or a pipe that nobody reads
            continue
    os._exit(status)
