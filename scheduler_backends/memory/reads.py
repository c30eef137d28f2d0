"""Reads: get, list and stats."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence

from scheduler.errors import ConfigError
from scheduler.jobs import Job
from scheduler.limits import check_limit, check_name, check_queues
from scheduler.queues import Page, QueueStats, cursor_of, place_of
from scheduler.states import JobState
from scheduler_backends.memory.arguments import all_of, state_of
from scheduler_backends.memory.chains import JobList
from scheduler_backends.memory.queues import MemoryQueue
from scheduler_backends.memory.store import SLICE, Store

# version, partition, priority, stamp, and the id of the last job answered
_CURSOR = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d)\.(-?\d{1,18})\.(.+)")
Place = tuple[int, int, int]


class ReadMethods:
    """The methods that only read."""

    _store: Store

    def get(self, queue: str, ids: Sequence[str]) -> Mapping[str, Job]:
        """The stored jobs among *ids*, by id."""
        name, asked = check_name("queue", queue, ConfigError), all_of("ids", ids, str)
        found: dict[str, Job] = {}
        for start in range(0, max(1, len(asked)), SLICE):
            if start:
                time.sleep(0)  # as in `MemoryBackend`
            with self._store.lock:
                self._store.look()
                rows = self._store.seen(name).jobs
                some = asked[start : start + SLICE]
                found |= {job_id: rows[job_id].snapshot() for job_id in some if job_id in rows}
        return found

    def list(self, queue: str, state: JobState, *, cursor: str | None = None, limit: int = 100) -> Page:
        """A page of the queue's jobs in *state*, by version, partition and priority, then as they came into it."""
        name, wanted, most = check_name("queue", queue, ConfigError), state_of(state), check_limit(limit)
        jobs: list[Job] = []
        while True:
            with self._store.lock:
                self._store.look()
                page = _page_of(self._store.seen(name), wanted, cursor, min(most - len(jobs), SLICE))
            jobs += page.jobs
            cursor = page.cursor
            if cursor is None or len(jobs) == most:
                return Page(jobs=tuple(jobs), cursor=cursor)
            time.sleep(0)  # as in `MemoryBackend`

    def stats(self, queues: Sequence[str] | None = None) -> Sequence[QueueStats]:
        """Per queue and version, sorted by both; all counts are exact."""
        names = None if queues is None else check_queues(queues)
        with self._store.lock:
            now = self._store.look()
            asked = sorted(self._store.queues if names is None else names)
            return [row for name in asked for row in self._store.seen(name).stats(now)]


def _page_of(queue: MemoryQueue, state: JobState, cursor: str | None, limit: int) -> Page:
    """The jobs of *state* behind *cursor*: by version, partition and priority where those are kept apart."""
    place, stamp, job_id = _read(None if cursor is None else place_of(queue.name, state, cursor))
    hint = queue.jobs.get(job_id)
    jobs: list[Job] = []
    last = ""
    for at, chain in _chains(queue, state):
        if at < place:
            continue
        for row in chain.following(stamp, hint) if at == place else chain.following():
            if len(jobs) == limit:
                return Page(jobs=tuple(jobs), cursor=cursor_of(queue.name, state, last))
            jobs.append(row.snapshot())
            last = "{}.{}.{}.{}.{}".format(*at, row.stamp, row.id)
    return Page(jobs=tuple(jobs), cursor=None)


def _chains(queue: MemoryQueue, state: JobState) -> Iterator[tuple[Place, JobList]]:
    for number in sorted(queue.versions):
        for partition, priority, chain in queue.versions[number].places_of(state):
            yield (number, partition, priority), chain


def _read(place: str | None) -> tuple[Place, int | None, str]:
    if place is None:
        return (0, 0, 0), None, ""
    match = _CURSOR.fullmatch(place)
    if match is None:
        raise ConfigError("cursor", "must be one that an earlier page of this list answered, or None")
    version, partition, priority, stamp, job_id = match.groups()
    return (int(version), int(partition), int(priority)), int(stamp), job_id
