"""
Keeps jobs apart that may kill their process: those whose workers have crashed twice or more.

Two of them must not die together, since only one is to blame: a crash would be counted against both.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from scheduler.leases import Lease
from scheduler.worker.held_job import is_suspect
from scheduler.worker.inflight import InFlight
from scheduler.worker.outcome import Outcome, put_back

_APART_DELAY = (0.1, 0.3)  # seconds
_TRIAL = 5.0  # seconds: a job that kills its process mostly does so at once


def trial_left(inflight: InFlight) -> float:
    """
    For how many seconds nothing is to be leased, since such a job has just begun or is about to; 0.0 = there is none.

    A lease call that is under way when the process dies would count a crash against what it takes.
    """
    since = inflight.suspect_since()
    return 0.0 if since is None else max(0.0, since + _TRIAL - time.monotonic())


def set_apart(inflight: InFlight, leases: Sequence[Lease]) -> tuple[list[Lease], list[Outcome]]:
    """Those of *leases* to take in, and how to put the others back; to be recorded before any of the first begins."""
    kept: list[Lease] = []
    apart: list[Outcome] = []
    is_taken = inflight.suspect_since() is not None
    for lease in leases:
        suspect = is_suspect(lease) and not inflight.holds(lease)  # a repeated call returns what is held already
        if suspect and is_taken:
            apart.append(put_back(lease, random.uniform(*_APART_DELAY)))
        else:
            kept.append(lease)
            is_taken |= suspect
    return kept, apart
