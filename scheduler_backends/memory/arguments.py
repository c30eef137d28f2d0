"""Checks of arguments that `scheduler.limits` leaves to a backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from scheduler.errors import ConfigError
from scheduler.states import JobState

T = TypeVar("T")


def all_of(field: str, items: Sequence[T], kind: type[T]) -> tuple[T, ...]:
    """A copy of *items*, each of which is a *kind*: nothing is touched before the last one was looked at."""
    if isinstance(items, str):
        raise ConfigError(field, "must be a sequence, not one string")
    kept = tuple(items)
    for item in kept:
        if not isinstance(item, kind):
            raise ConfigError(field, f"must be {kind.__name__}, not {type(item).__name__}")
    return kept


def state_of(state: object) -> JobState:
    """One of the seven."""
    try:
        return JobState(state)  # type: ignore[arg-type]  # a wrong kind of value is a wrong state too
    except ValueError:
        raise ConfigError("state", f"must be one of {', '.join(JobState)}") from None
