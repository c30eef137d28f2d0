"""
CHECK constraints of both databases, and the condition that finds stray rows.

A row can break a constraint if another program dropped the constraint, or if the row is older than the constraint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from scheduler.jobs import Priority
from scheduler.limits import MAX_COUNT, MAX_DELAY, MAX_NAME
from scheduler_backends.sql.moments import EARLIEST, LATEST
from scheduler_backends.sql.states import CODES, FINISHED, LEASED, SUCCEEDED, WAITING

MAX_COUNTER: Final = 2**31 - 1
"""The largest number of attempts and crashes: the maximum of Postgres' type integer."""

_KNOWN: Final = f"({', '.join(map(str, sorted(CODES.values())))})"


NAMES: Final = "(queue || id || type)"
"""
SQL for all characters of a row's names. Each database refuses control characters in it with its own operators.

Only ASCII control characters are refused. In a database that is not UTF-8, the codes of others are parts of letters.
"""


class Bounds(NamedTuple):
    """Condition that all *values* lie between two bounds, which are included. None = no bound."""

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
Conditions for the rows of each table, by the name of the constraint. NULL passes.

They must be few and short, especially for jobs: Postgres parses them again for each statement that writes a row, even
if the statement changes none of their columns. The first version took 70 of the 200 µs for the insert of one job.
"""

STRAY: Final = (
    f"(state NOT IN {_KNOWN} OR state IN {WAITING} AND (priority NOT IN (0, 1, 2, 3) OR due_at > {LATEST})"
    f" OR state IN {FINISHED} AND finished_at IS NULL)"
)
"""Condition for stray rows, which no move and no list would ever find. A partial index, normally empty, finds them."""
