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
from scheduler.states import JobState

_BYTES: Final = "hex"  # the name of bytes in a document
_TOKEN = re.compile("[0-9a-f-]{32,36}")

_IMPOSSIBLE = re.compile("[\0\ud800-\udfff]")  # in a text that Postgres has

Position = tuple[int, int | float | str | bytes, str | bytes]
"""
The priority being walked (0 where the walk does not go by priority), the key within it, and the id.

The last two as the row has them, whatever another program has written there: the walk goes on behind it.
"""


KEYS: Final[Mapping[JobState, str]] = {
    **dict.fromkeys((JobState.SCHEDULED, JobState.READY, JobState.RETRY_WAIT), "due_at"),
    **dict.fromkeys((JobState.SUCCEEDED, JobState.CANCELLED, JobState.DEAD), "finished_at"),
    JobState.LEASED: "lease_token",
}
"""The column by which a list of a state walks, before the id."""


def goes_by_priority(state: JobState) -> bool:
    """Whether a list of *state* walks one priority after the other, as the index of its jobs does."""
    return state in (JobState.SCHEDULED, JobState.READY)


def first_position(state: JobState, least_token: str) -> Position:
    """Return where a list of *state* begins. *least_token* is the least value of `lease_token`."""
    return (0, least_token if state is JobState.LEASED else -(2**63), "")


def write_place(position: Position) -> str:
    """Return *position* as the text in a cursor."""
    text = json.dumps(position, separators=(",", ":"), default=lambda raw: {_BYTES: raw.hex()})
    return base64.urlsafe_b64encode(text.encode()).decode()


def read_place(state: JobState, place: str, *, any_value: bool) -> Position:
    """
    Return the position that `write_place` made for a list of *state*; `ConfigError` for any other text.

    any_value: the columns may have values of any type, and text that is not UTF-8, as in SQLite.
    """
    refused = ConfigError("cursor", f"was not made by this store for a list of {state.value} jobs")
    try:
        found = json.loads(base64.b64decode(place.encode("ascii"), altchars=b"-_", validate=True), object_hook=_bytes)
        priority, key, id = found
    except (ValueError, TypeError, KeyError, binascii.Error, RecursionError):
        raise refused from None
    if type(priority) is not int or priority not in range(len(Priority)):
        raise refused
    may_be_number = state is not JobState.LEASED
    if any_value:
        possible = _is_of_sqlite(key, may_be_number=may_be_number) and _is_of_sqlite(id, may_be_number=False)
    else:
        possible = isinstance(id, str) and not _IMPOSSIBLE.search(id)
        possible = possible and (
            _is_int64(key) if may_be_number else isinstance(key, str) and bool(_TOKEN.fullmatch(key))
        )
    if not possible:
        raise refused
    return priority, key, id


def _bytes(document: dict[str, str]) -> bytes:
    return bytes.fromhex(document[_BYTES])


def _is_int64(value: object) -> bool:
    return type(value) is int and -(2**63) <= value < 2**63


def _is_of_sqlite(value: object, *, may_be_number: bool) -> bool:
    if isinstance(value, str):
        try:
            value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            return False
        return True
    return isinstance(value, bytes) or (may_be_number and (_is_int64(value) or isinstance(value, float)))


def next_priority(state: JobState, position: Position) -> Position | None:
    """Return where a walk continues after the priority of *position*; None = it has ended."""
    priority = position[0] + 1
    if not goes_by_priority(state) or priority == len(Priority):
        return None
    return (priority, *first_position(state, "")[1:])
