"""The standard streams of a process that was started without them, as daemons are."""

from __future__ import annotations

import os
import sys


def ensure() -> None:
    """
    Have closed ones lead nowhere.

    Else a database's file would get their numbers, and be written what is meant for stderr.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(descriptor, "w", closefd=False))  # noqa: SIM115 - for good
