"""Cursors of paged lists: the position at which the next page begins, encoded as text."""

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

_BYTES: Final = "hex"  # the JSON key for a value of type bytes
_TOKEN = re.compile("[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # a UUID, as Postgres reads it

_IMPOSSIBLE = re.compile("[\0\ud800-\udfff]")  # no text in Postgres contains these characters

Position = tuple[int, int | float | str | bytes, str | bytes]
"""
Position in a list: the priority (0 if the list does not go by priority), the key and the id of a row.

Key and id are exactly what the row holds, even if another program wrote it, so that the list continues after that row.
"""


KEYS: Final[Mapping[JobState, str]] = {
    **dict.fromkeys((JobState.SCHEDULED, JobState.READY, JobState.RETRY_WAIT), "due_at"),
    **dict.fromkeys((JobState.SUCCEEDED, JobState.CANCELLED, JobState.DEAD), "finished_at"),
    JobState.LEASED: "lease_token",
}
"""The column by which a list of each state is ordered; jobs with the same value are ordered by id."""


def goes_by_priority(state: JobState) -> bool:
    """Return whether a list of *state* is ordered by priority first, as the index of its jobs is."""
    return state in (JobState.SCHEDULED, JobState.READY)


def first_position(state: JobState, least_token: str) -> Position:
    """Return where a list of *state* begins. *least_token* is the smallest possible `lease_token`."""
    return (0, least_token if state is JobState.LEASED else -(2**63), "")


def write_place(position: Position) -> str:
    """Encode *position* as the text of a cursor."""
    text = json.dumps(position, separators=(",", ":"), default=lambda raw: {_BYTES: raw.hex()})
    return base64.urlsafe_b64encode(text.encode()).decode()


def read_place(state: JobState, place: str, *, any_value: bool) -> Position:
    """
    Decode the text that `write_place` returned for a list of *state*. Raises `ConfigError` for any other text.

    With *any_value*, the key and the id may have any type and may be text that is not UTF-8, as in SQLite.
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
    """Return where the priority after that of *position* begins, None = the list has ended."""
    priority = position[0] + 1
    if not goes_by_priority(state) or priority == len(Priority):
        return None
    return (priority, *first_position(state, "")[1:])
