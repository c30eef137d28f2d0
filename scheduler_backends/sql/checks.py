"""
The conditions of a row, which both databases check, and how rows are found that break them.

Such a row was written by another program that dropped the checks, or before the checks were there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler.jobs import Priority
from scheduler.limits import MAX_COUNT, MAX_DELAY, MAX_NAME
from scheduler_backends.sql.moments import EARLIEST, LATEST
from scheduler_backends.sql.states import CODES, FINISHED, LEASED, WAITING

MOST: Final = 2**31 - 1
"""The largest number of attempts and crashes: Postgres' integer has no larger one."""

_KNOWN: Final = f"({', '.join(map(str, sorted(CODES.values())))})"
_MOMENT: Final = f"BETWEEN {EARLIEST} AND {LATEST}"

NAMES: Final = "(queue || id || type)"
"""
All characters of a row's names. Each database refuses control characters there in its own way.

Only those of ASCII: in a database that is not UTF-8, the others are parts of letters.
"""

CHECKS: Final[Mapping[str, str]] = {
    "names": " AND ".join(f"length({name}) BETWEEN 1 AND {MAX_NAME}" for name in ("queue", "id", "type")),
    "state": f"state IN {_KNOWN}",
    "priority": f"priority BETWEEN 0 AND {max(Priority).value}",
    "counters": (
        f"attempts BETWEEN 0 AND {MOST} AND crashes BETWEEN 0 AND {MOST} AND max_retries BETWEEN 0 AND {MAX_COUNT}"
    ),
    "timeout": f"timeout BETWEEN 0.001 AND {MAX_DELAY}",
    "moments": " AND ".join(
        f"{name} {_MOMENT}" for name in ("run_at", "due_at", "created_at", "finished_at", "lease_until")
    ),
    "finished": f"state NOT IN {FINISHED} OR finished_at IS NOT NULL",
    "leased": f"state <> {LEASED} OR lease_token IS NOT NULL AND lease_owner IS NOT NULL AND lease_until IS NOT NULL",
}
"""Conditions of a table of jobs by name; NULL passes."""

STRAY: Final = (
    f"(state NOT IN {_KNOWN} OR state IN {WAITING} AND (priority NOT IN (0, 1, 2, 3) OR due_at > {LATEST})"
    f" OR state IN {FINISHED} AND finished_at IS NULL)"
)
"""Rows that no move and no list would ever find. An index of its own, normally empty, finds them."""


def check_clauses(prefix: str, own: Mapping[str, str]) -> str:
    """Return the named constraints of a CREATE TABLE; *own* are the database's own: of characters and JSON columns."""
    return ",\n".join(
        f"    CONSTRAINT {prefix}job_{name} CHECK ({condition})" for name, condition in {**CHECKS, **own}.items()
    )
