"""
Checks of what the methods of a store are called with: the same on every store, in the same words.

Each check returns the value to use and raises `ConfigError`, which names the argument, before anything is touched.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TypeVar

from scheduler.errors import ConfigError
from scheduler.jobs import Job, NewJob
from scheduler.leases import Completion, Failure, Lease
from scheduler.limits import FORBIDDEN_IN_NAMES, MAX_BATCH, MAX_NAME, check_count, check_name, check_number
from scheduler.states import JobState
from scheduler.topology import MAX_PARTITIONS

Settled = TypeVar("Settled", bound=Lease | Completion | Failure)
T = TypeVar("T")

_TOKEN = re.compile("[0-9a-f]{32}")
_SEPARATOR = "\x01"  # in no name, since names hold no control characters
_OF_LEASED_JOBS = (("queue", str), ("id", str), ("queue_version", int), ("partition", int))  # what stores look at
_IMPOSSIBLE = re.compile("[\x00\x02-\x1f\x7f-\x9f\ud800-\udfff]")  # in any name; separators are counted


def check_jobs(jobs: Sequence[NewJob]) -> Sequence[NewJob]:
    """Return the jobs of an enqueue call, in a sequence that the caller cannot change."""
    return _all_of("jobs", jobs, NewJob)


def check_queue(queue: object) -> str:
    """Return the name of one queue."""
    return check_name("queue", queue, ConfigError)


def check_queues(queues: Sequence[str]) -> tuple[str, ...]:
    """Return the queues of a call: at least one name, each once. A bare string is a mistake, not a sequence."""
    if type(queues) is tuple and set(map(type, queues)) == {str}:
        return _checked_queues(queues)  # a worker names its queues, a thousand perhaps, in every call
    return _check_queues(queues)


def _check_queues(queues: Sequence[str]) -> tuple[str, ...]:
    if isinstance(queues, str):
        raise ConfigError("queues", "must be a sequence of names, not one string")
    try:
        given = tuple(queues)
    except TypeError:
        raise ConfigError("queues", f"must be a sequence of names, not {type(queues).__name__}") from None
    names = tuple(dict.fromkeys(check_name("queues", name, ConfigError) for name in given))
    if not names:
        raise ConfigError("queues", "must name at least one queue")
    return names


_checked_queues = lru_cache(maxsize=64)(_check_queues)


def check_ids(ids: Sequence[str]) -> Sequence[str]:
    """Return the ids of a call as plain text. Those that no job can have are allowed: see `is_possible_id`."""
    given = _tuple_of("ids", ids)
    for id in given:
        if not isinstance(id, str):
            raise ConfigError("ids", f"must hold text only, not {type(id).__name__}")
    return [str.__str__(id) for id in given]  # plain text, also of a text-valued enum


def is_possible_id(id: str) -> bool:
    """Return True if a job can have this id. Others never reach a store, which may not accept their characters."""
    return 1 <= len(id) <= MAX_NAME and FORBIDDEN_IN_NAMES.search(id) is None


def check_state(state: object) -> JobState:
    """Return one of the seven states, or its value as text."""
    try:
        return JobState(state)  # type: ignore[arg-type]  # a value of the wrong type is a wrong state as well
    except ValueError:
        raise ConfigError("state", f"must be one of {', '.join(JobState)}") from None


def check_limit(limit: object) -> int:
    """Return the most jobs that one call may move: 1 to 10,000."""
    return check_count("limit", limit, at_least=1, at_most=MAX_BATCH)


def check_duration(duration: object) -> float:
    """Return how long a lease lasts, in seconds: at least a millisecond, at most a year."""
    return check_number("duration", duration, at_least=0.001, at_most=366 * 86_400.0)


def check_token(token: object) -> str:
    """Return a lease token: 32 hexadecimal digits in lower case."""
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise ConfigError("token", "must be 32 hexadecimal digits in lower case, such as new_token() makes")
    return token


def check_version(version: object) -> int:
    """Return the number of a queue's version."""
    return check_count("version", version, at_least=1)


def check_partitions(partitions: object) -> int:
    """Return the number of partitions of a version."""
    return check_count("partitions", partitions, at_least=1, at_most=MAX_PARTITIONS)


def check_settled(field: str, items: Sequence[Settled], kind: type[Settled]) -> tuple[Sequence[Settled], list[Lease]]:
    """
    Return the items of a call that settles or renews, and the leases among them that no lease call can have returned.

    The latter hold nothing. They are refused without asking the store, which may not accept their characters.
    """
    checked = _all_of(field, items, kind)
    leases = [item if isinstance(item, Lease) else item.lease for item in checked]
    if _are_possible(leases):
        return checked, []
    possible = [_is_possible(field, lease) for lease in leases]
    return (
        [item for item, yes in zip(checked, possible, strict=True) if yes],
        [lease for lease, yes in zip(leases, possible, strict=True) if not yes],
    )


def _is_possible(field: str, lease: object) -> bool:
    job, token = getattr(lease, "job", None), getattr(lease, "token", None)
    is_job = isinstance(job, Job) and all(isinstance(getattr(job, name), kind) for name, kind in _OF_LEASED_JOBS)
    if not isinstance(job, Job) or not is_job or not isinstance(token, str):
        raise ConfigError(field, "must hold leases as lease() returns them")
    return is_possible_id(job.queue) and is_possible_id(job.id) and _TOKEN.fullmatch(token) is not None


def _are_possible(leases: Sequence[Lease]) -> bool:
    """As `_is_possible` for all of them, in a fraction of the time: every settle call of a worker comes here."""
    try:
        jobs = [lease.job for lease in leases]
        queues = {job.queue for job in jobs}
        places = {job.queue_version for job in jobs} | {job.partition for job in jobs}
        tokens = {lease.token for lease in leases}
        ids = _SEPARATOR.join([job.id for job in jobs])
        return (
            ids.count(_SEPARATOR) == max(0, len(leases) - 1)
            and _IMPOSSIBLE.search(ids) is None
            and all(map(is_possible_id, queues))
            and set(map(type, places)) <= {int}
            and all(map(_TOKEN.fullmatch, tokens))
        )
    except (AttributeError, TypeError):  # not made by a store
        return False


def _tuple_of(field: str, items: Iterable[T]) -> tuple[T, ...]:
    if isinstance(items, str):
        raise ConfigError(field, "must be a sequence, not one string")
    try:
        return tuple(items)
    except TypeError:
        raise ConfigError(field, f"must be a sequence, not {type(items).__name__}") from None


def _all_of(field: str, items: Iterable[T], kind: type[T]) -> tuple[T, ...]:
    checked = _tuple_of(field, items)
    # Themselves, since a subclass may set fields around the checks of its base class, and no store checks them again.
    others = set(map(type, checked)) - {kind}
    if others:
        found = min(other.__name__ for other in others)
        raise ConfigError(field, f"must hold plain {kind.__name__} objects only, no subclass, not {found}")
    return checked
