"""Pages of a list: the jobs of a state, chain by chain."""

from __future__ import annotations

import re
from collections.abc import Iterator

from scheduler.errors import ConfigError
from scheduler.jobs import Job
from scheduler.queues import Page
from scheduler.states import JobState
from scheduler_backends.memory.chains import Chain
from scheduler_backends.memory.queues import MemoryQueue

# version, partition, priority, stamp, and the id of the last job answered
_CURSOR = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d)\.(-?\d{1,18})\.(.+)")
Place = tuple[int, int, int]


def page_of(queue: MemoryQueue | None, state: JobState, cursor: str | None, limit: int) -> Page:
    """The jobs of *state* behind *cursor*: by version, partition and priority where those are kept apart."""
    place, stamp, job_id = _read(cursor)
    if queue is None:
        return Page(jobs=(), cursor=None)
    hint = queue.jobs.get(job_id)
    jobs: list[Job] = []
    last = ""
    for at, chain in _chains(queue, state):
        if at < place:
            continue
        for row in chain.following(stamp, hint) if at == place else chain.following():
            if len(jobs) == limit:
                return Page(jobs=tuple(jobs), cursor=last)
            jobs.append(row.snapshot())
            last = "{}.{}.{}.{}.{}".format(*at, row.stamp, row.id)
    return Page(jobs=tuple(jobs), cursor=None)


def _chains(queue: MemoryQueue, state: JobState) -> Iterator[tuple[Place, Chain]]:
    for number in sorted(queue.versions):
        for partition, priority, chain in queue.versions[number].places_of(state):
            yield (number, partition, priority), chain


def _read(cursor: str | None) -> tuple[Place, int | None, str]:
    if cursor is None:
        return (0, 0, 0), None, ""
    match = _CURSOR.fullmatch(cursor) if isinstance(cursor, str) else None  # type: ignore[redundant-expr]  # callers may be untyped
    if match is None:
        raise ConfigError("cursor", "must be one that an earlier page of this list answered, or None")
    version, partition, priority, stamp, job_id = match.groups()
    return (int(version), int(partition), int(priority)), int(stamp), job_id
