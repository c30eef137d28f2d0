"""
The conditions of a row, which both databases check, and how rows are found that break them.

Such a row was written by another program that dropped the checks, or before the checks were there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from scheduler.jobs import Priority
from scheduler.limits import MAX_COUNT, MAX_DELAY, MAX_NAME
from scheduler_backends.sql.moments import EARLIEST, LATEST
from scheduler_backends.sql.states import CODES, FINISHED, LEASED, SUCCEEDED, WAITING

MOST: Final = 2**31 - 1
"""The largest number of attempts and crashes: Postgres' integer has no larger one."""

_KNOWN: Final = f"({', '.join(map(str, sorted(CODES.values())))})"


NAMES: Final = "(queue || id || type)"
"""
All characters of a row's names. Each database refuses control characters there in its own way.

Only those of ASCII: in a database that is not UTF-8, the others are parts of letters.
"""


class Bounds(NamedTuple):
    """That each of some values lies between two bounds, which are included; None = there is none."""

    low: float | None
    high: float | None
    values: tuple[str, ...]


def _moments(*columns: str) -> Bounds:
    return Bounds(EARLIEST, LATEST, columns)


CHECKS: Final[Mapping[str, Mapping[str, Sequence[str | Bounds]]]] = {
    "job": {
        "names": [Bounds(1, MAX_NAME, ("length(queue)", "length(id)", "length(type)", "length(key)"))],
        "state": [f"state IN {_KNOWN}"],
        "modes": [
            Bounds(0, None, ("priority", "conflict")),
            Bounds(None, max(Priority).value, ("priority",)),
            Bounds(None, 7, ("conflict",)),
        ],
        "counters": [
            Bounds(0, None, ("attempts", "crashes", "max_retries")),
            Bounds(None, MAX_COUNT, ("max_retries",)),
        ],
        "seconds": [
            Bounds(0.001, None, ("timeout",)),
            Bounds(0, None, ("keep",)),
            Bounds(None, MAX_DELAY, ("timeout", "keep")),
        ],
        "moments": [
            _moments(
                "run_at", "due_at", "created_at", "finished_at", "lease_until", "keep_until", "expires_at",
                "window_start", "leased_at",
            )
        ],
        "finished": [f"state < {SUCCEEDED} OR finished_at IS NOT NULL"],  # the last three states
        "leased": [
            f"state <> {LEASED} OR lease_token IS NOT NULL AND lease_owner IS NOT NULL AND lease_until IS NOT NULL"
        ],
        # Of 16 characters each, separated by spaces.
        "nonces": ["length(nonce) % 17 = 16"],
    },
    "queue": {"paused": ["paused IN (false, true)"], "moments": [_moments("paused_at", "paused_until")]},
    "bucket": {"moments": [_moments("tat", "held_until")]},
    "schedule": {"moments": [_moments("next_tick", "last_tick")]},
    "worker": {"moments": [_moments("seen_at", "expires_at")]},
    "done": {"moments": [_moments("done_at")]},
}  # fmt: skip
"""
Conditions of the rows of each table by name; NULL passes.

Few and short, above all those of jobs: Postgres reads their text anew for each statement that writes a row, whatever
the statement changes. At first they took 70 of the 200 µs that the server needed to insert one job.
"""

STRAY: Final = (
    f"(state NOT IN {_KNOWN} OR state IN {WAITING} AND (priority NOT IN (0, 1, 2, 3) OR due_at > {LATEST})"
    f" OR state IN {FINISHED} AND finished_at IS NULL)"
)
"""Rows that no move and no list would ever find. An index of its own, normally empty, finds them."""
