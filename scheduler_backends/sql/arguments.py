"""What the calls are given, checked before anything is touched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

from scheduler.errors import ConfigError, InvalidJob
from scheduler.jobs import NewJob
from scheduler.limits import check_name

SLICE: Final = 1_000
"""Rows that one transaction writes at most, so that no call holds others up for long, however large its batch."""

_Item = TypeVar("_Item")


def check_new_jobs(jobs: Sequence[NewJob]) -> list[NewJob]:
    """The jobs of an enqueue call."""
    checked = list(jobs)
    for job in checked:
        if not isinstance(job, NewJob):
            raise InvalidJob("jobs", f"must be NewJob objects, not {type(job).__name__}")
    return checked


def check_queue(queue: object) -> str:
    """The one queue of a call."""
    return check_name("queue", queue, ConfigError)


def check_ids(ids: Sequence[str]) -> list[str]:
    """The ids of a call, as given: those that no job can have are looked for like others, and not found."""
    if isinstance(ids, str):
        raise ConfigError("ids", "must be a sequence of ids, not one string")
    checked = list(ids)
    for one in checked:
        if not isinstance(one, str):
            raise ConfigError("ids", f"must be text, not {type(one).__name__}")
    return checked


def is_possible_id(id: str) -> bool:
    """Whether a job could have this id. The others never reach the database: it may not even take their characters."""
    try:
        check_name("id", id)
    except InvalidJob:
        return False
    return True


def slices(items: Sequence[_Item], size: int = SLICE) -> Iterator[Sequence[_Item]]:
    """*items* in runs of at most *size*."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
