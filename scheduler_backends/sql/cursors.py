"""Where the next page of a list begins, as text that only these stores write and read."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Final

from scheduler.errors import ConfigError
from scheduler.jobs import Priority
from scheduler.limits import is_possible_id
from scheduler.states import JobState

_TOKEN = re.compile("[0-9a-f-]{32,36}")

Position = tuple[int, int | str, str]
"""The priority being walked (0 where the walk does not go by priority), the key within it, and the id."""


KEYS: Final[Mapping[JobState, str]] = {
    **dict.fromkeys((JobState.SCHEDULED, JobState.READY, JobState.RETRY_WAIT), "due_at"),
    **dict.fromkeys((JobState.SUCCEEDED, JobState.CANCELLED, JobState.DEAD), "finished_at"),
    JobState.LEASED: "lease_token",
}
"""The column by which a list of a state walks, before the id."""


def goes_by_priority(state: JobState) -> bool:
    """Whether a list of *state* walks one priority after the other, as the index of its jobs does."""
    return state in (JobState.SCHEDULED, JobState.READY)


def first_position(state: JobState) -> Position:
    """Return where a list of *state* begins."""
    return (0, "0" * 32, "") if state is JobState.LEASED else (0, -(2**63), "")


def write_place(position: Position) -> str:
    """Return *position* as the text in a cursor."""
    return base64.urlsafe_b64encode(json.dumps(position, separators=(",", ":")).encode()).decode()


def read_place(state: JobState, place: str) -> Position:
    """Return the position that `write_place` made for a list of *state*; `ConfigError` for any other text."""
    refused = ConfigError("cursor", f"was not made by this store for a list of {state.value} jobs")
    try:
        found = json.loads(base64.b64decode(place.encode("ascii"), altchars=b"-_", validate=True))
        priority, key, id = found
    except (ValueError, TypeError, binascii.Error, RecursionError):
        raise refused from None
    wanted = str if state is JobState.LEASED else int
    if not (type(priority) is int and type(key) is wanted and isinstance(id, str)):
        raise refused
    possible = _TOKEN.fullmatch(key) if isinstance(key, str) else -(2**63) <= key < 2**63
    if priority not in range(len(Priority)) or not (id == "" or is_possible_id(id)) or not possible:
        raise refused
    return priority, key, id


def next_priority(state: JobState, position: Position) -> Position | None:
    """Return where a walk continues after the priority of *position*; None = it has ended."""
    priority = position[0] + 1
    if not goes_by_priority(state) or priority == len(Priority):
        return None
    return (priority, *first_position(state)[1:])
