"""What the calls are given, checked before anything is touched."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

from scheduler.errors import ConfigError, InvalidJob
from scheduler.jobs import NewJob
from scheduler.leases import Lease
from scheduler.limits import check_name

SLICE: Final = 1_000
"""Rows that one transaction writes at most, so that no call holds others up for long, however large its batch."""

SEPARATOR: Final = "\1"
"""Stands in no name, since names hold no control characters."""

_IMPOSSIBLE = re.compile("[\x00\x02-\x1f\x7f-\x9f\ud800-\udfff]")  # in any name; the separator is counted
_TOKEN = re.compile("[0-9a-f]{32}")
_TOKENS = re.compile(f"[0-9a-f]{{32}}(?:{SEPARATOR}[0-9a-f]{{32}})*")

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


def is_possible_lease(lease: Lease) -> bool:
    """Whether a lease call could have given it. The others are refused without asking: see `is_possible_id`."""
    return (
        is_possible_id(lease.job.queue) and is_possible_id(lease.job.id) and _TOKEN.fullmatch(lease.token) is not None
    )


def are_possible_leases(leases: Sequence[Lease]) -> bool:
    """Whether all of them are possible, at a fraction of the time: the settle calls of a busy worker ask."""
    names = SEPARATOR.join([*(lease.job.queue for lease in leases), *(lease.job.id for lease in leases)])
    tokens = SEPARATOR.join([lease.token for lease in leases])
    return (
        names.count(SEPARATOR) == 2 * len(leases) - 1
        and _IMPOSSIBLE.search(names) is None
        and _TOKENS.fullmatch(tokens) is not None
    )


def slices(items: Sequence[_Item], size: int = SLICE) -> Iterator[Sequence[_Item]]:
    """*items* in runs of at most *size*."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
